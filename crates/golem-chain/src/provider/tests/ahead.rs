//! Tests with endpoints that claim to be ahead of the others; they must not silence anyone.

use super::*;

/// Times of the newest block of a chain that continues, and of one that stopped an hour earlier.
const FRESH: u64 = 10_000;
const OLD: u64 = FRESH - 3_600;

/// Server that returns this block number for every block request and `word` for everything else.
async fn told(number: u64, word: Value) -> Server {
    told_at(FRESH, number, word).await
}

/// Like [`told`], with the given block time.
async fn told_at(timestamp: u64, number: u64, word: Value) -> Server {
    Server::start(CHAIN_ID, move |_, question| {
        let block = json!({"number": format!("{number:#x}"), "timestamp": format!("{timestamp:#x}")});
        let says = if question["method"] == "eth_getBlockByNumber" { block } else { word.clone() };
        Reaction::Body(server::result(question, says))
    })
    .await
}

/// Conditions of the endpoints after enough polls to settle them.
async fn polled(endpoints: &[Endpoint]) -> Vec<EndpointCondition> {
    let patience = MonitorRules { patience: PATIENT, ..MonitorRules::default() };
    let (mut monitor, handle) =
        EndpointMonitor::new(CHAIN_ID, endpoints.to_vec(), patience, Arc::new(FixedClock(FRESH + 10)));
    for _ in 0..5 {
        monitor.poll().await;
    }
    handle.now().endpoints.iter().map(EndpointHealth::condition).collect()
}

fn nonce() -> SerializedRequest {
    Request::new("eth_getTransactionCount", Id::Number(1), ("0x00", "latest")).serialize().unwrap()
}

#[tokio::test]
async fn one_endpoint_that_claims_to_be_ahead_makes_no_other_count_as_lagging() {
    let honest = (told(100, json!("0x1")).await, told(100, json!("0x1")).await);
    let liar = told(110, json!("0x9")).await;
    let endpoints = vec![endpoint(&honest.0.url), endpoint(&liar.url), endpoint(&honest.1.url)];
    assert_eq!(polled(&endpoints).await, [EndpointCondition::Healthy; 3]);
    assert_eq!(endpoints[0].health().lag_blocks, Some(0));
    // With two endpoints, neither can show that the other is late.
    let endpoints = vec![endpoint(&honest.0.url), endpoint(&liar.url)];
    assert_eq!(polled(&endpoints).await, [EndpointCondition::Healthy; 2]);
}

#[tokio::test]
async fn the_answer_of_a_lagging_endpoint_still_counts() {
    let (honest, one, other) =
        (told(100, json!("0x1")).await, told(110, json!("0x9")).await, told(110, json!("0x9")).await);
    let endpoints = vec![endpoint(&honest.url), endpoint(&one.url), endpoint(&other.url)];
    let stack = stack(endpoints.clone(), 1);
    assert_eq!(
        polled(&endpoints).await,
        [EndpointCondition::Degraded, EndpointCondition::Healthy, EndpointCondition::Healthy]
    );
    let refused = ask(&stack, nonce()).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Disagreement { .. }), "{refused:?}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_abstains() {
    let honest = told(100, json!("0x1")).await;
    let endpoints = vec![endpoint(&honest.url), endpoint(&dead_url().await)];
    let stack = stack(endpoints.clone(), 1);
    assert_eq!(polled(&endpoints).await, [EndpointCondition::Healthy, EndpointCondition::Down]);
    assert_eq!(results(&ask(&stack, nonce()).await.unwrap()), ["\"0x1\""]);
}

/// A polled stack over endpoints of a chain with a block interval of one second.
async fn by_the_clock(servers: &[&Server]) -> EndpointStack {
    judged(servers, PATIENT).await
}

/// Like [`by_the_clock`], with the given latency threshold.
async fn judged(servers: &[&Server], slow: Duration) -> EndpointStack {
    let limits = HttpLimits { timeout: PATIENT, connect_timeout: PATIENT, max_body: 4096 };
    let thresholds = HealthThresholds { slow, ..HealthThresholds::for_block_time(Duration::from_secs(1)) };
    let endpoint = |server: &&Server| {
        let url = RpcUrl::parse(&server.url).unwrap();
        Endpoint::http(url, CHAIN_ID, limits, thresholds, Arc::new(SystemClock)).unwrap()
    };
    let endpoints: Vec<_> = servers.iter().map(endpoint).collect();
    polled(&endpoints).await;
    stack(endpoints, 1)
}

fn contradicted(answer: Result<ResponsePacket, ProviderError>) -> bool {
    matches!(answer, Err(ProviderError::Disagreement { .. }))
}

#[tokio::test]
async fn a_stalled_endpoint_is_not_asked() {
    let one = told(110, json!("0x2")).await;
    let other = told(110, json!("0x2")).await;
    let stuck = told_at(OLD, 100, json!("0x1")).await;
    // The stalled endpoint is not queried, at any position.
    for order in [[&stuck, &one, &other], [&one, &stuck, &other], [&one, &other, &stuck]] {
        // This holds even if the others are slow.
        for slow in [PATIENT, Duration::ZERO] {
            let stack = judged(&order, slow).await;
            let before = stuck.count();
            assert_eq!(results(&ask(&stack, nonce()).await.unwrap()), ["\"0x2\""]);
            assert_eq!(stuck.count(), before);
        }
    }
    // The two others must still agree.
    let liar = told(110, json!("0x9")).await;
    assert!(contradicted(ask(&by_the_clock(&[&one, &liar, &stuck]).await, nonce()).await));
    // Without an age limit it is queried as usual.
    let endpoints = [&one, &other, &stuck].map(|server| endpoint(&server.url));
    polled(&endpoints).await;
    assert!(contradicted(ask(&self::stack(endpoints.to_vec(), 1), nonce()).await));
}

#[tokio::test]
async fn on_a_stalled_chain_no_single_endpoint_decides() {
    let honest = (told_at(OLD, 100, json!("0x1")).await, told_at(OLD, 100, json!("0x1")).await);
    let liar = told(101, json!("0x9")).await;
    assert!(contradicted(ask(&by_the_clock(&[&liar, &honest.0, &honest.1]).await, nonce()).await));
    assert!(contradicted(ask(&by_the_clock(&[&liar, &honest.0]).await, nonce()).await));
    // If all have stalled, all are queried.
    let stack = by_the_clock(&[&honest.0, &honest.1]).await;
    assert_eq!(results(&ask(&stack, nonce()).await.unwrap()), ["\"0x1\""]);
    let other = told_at(OLD, 100, json!("0x9")).await;
    assert!(contradicted(ask(&by_the_clock(&[&honest.0, &other]).await, nonce()).await));
    // Two stalled endpoints do not outvote one that continues.
    let one = told(110, json!("0x2")).await;
    assert!(contradicted(ask(&by_the_clock(&[&honest.0, &honest.1, &one]).await, nonce()).await));
}
