//! Tests of retries and their waits, with scripted answers and a paused clock.

use super::*;

/// A transport that answers from a script and records the times of the requests.
#[derive(Clone)]
struct Script {
    script: Arc<dyn Fn(usize) -> Result<(), ProviderError> + Send + Sync>,
    asked: Arc<Mutex<Vec<tokio::time::Instant>>>,
}

impl Script {
    fn new(script: impl Fn(usize) -> Result<(), ProviderError> + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), asked: Arc::default() }
    }

    fn endpoint(&self, name: &str) -> Endpoint {
        Endpoint::new(SafeText::clean(name, 20), CHAIN_ID, self.clone(), HealthThresholds::default())
    }

    /// Times between the requests, in milliseconds.
    fn gaps(&self) -> Vec<u128> {
        let asked = self.asked.lock();
        asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect()
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

impl tower::Service<RequestPacket> for Script {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let question: Value = serde_json::to_value(&packet).unwrap();
        let outcome = if question["method"] == "eth_chainId" {
            Ok(server::result(&question, json!("0x7a69")))
        } else {
            let mut asked = self.asked.lock();
            asked.push(tokio::time::Instant::now());
            (self.script)(asked.len() - 1).map(|()| good_answer(&question))
        };
        Box::pin(async move { Ok(serde_json::from_str(&outcome?).unwrap()) })
    }
}

fn broken() -> ProviderError {
    ProviderError::Interrupted { endpoint: SafeText::clean("script", 10), reason: SafeText::clean("reset", 10) }
}

fn limited(seconds: u64) -> ProviderError {
    let retry_after = Some(Duration::from_secs(seconds));
    ProviderError::RateLimited { endpoint: SafeText::clean("script", 10), retry_after }
}

fn slow_rules() -> RetryRules {
    RetryRules { jitter: Jitter::Off, ..RetryRules::default() }
}

#[tokio::test(start_paused = true)]
async fn reads_are_repeated_with_doubling_waits_and_then_given_up() {
    let script = Script::new(|_| Err(broken()));
    let stack = EndpointStack::new(CHAIN_ID, vec![script.endpoint("one")], slow_rules()).unwrap();
    assert_eq!(ask(&stack, call(1, READ)).await.unwrap_err(), broken());
    assert_eq!(script.gaps(), [200, 400, 800]);
}

#[tokio::test(start_paused = true)]
async fn no_attempt_begins_after_the_total_time() {
    let script = Script::new(|_| Err(broken()));
    let rules = RetryRules { rounds: 1000, total: Duration::from_secs(20), ..slow_rules() };
    let stack = EndpointStack::new(CHAIN_ID, vec![script.endpoint("one")], rules).unwrap();
    let begun = tokio::time::Instant::now();
    ask(&stack, call(1, READ)).await.unwrap_err();
    assert_eq!(script.gaps(), [200, 400, 800, 1600, 3200, 5000, 5000]);
    assert!(begun.elapsed() <= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let script = Script::new(|index| if index == 0 { Err(limited(3)) } else { Ok(()) });
    let stack = EndpointStack::new(CHAIN_ID, vec![script.endpoint("one")], slow_rules()).unwrap();
    ask(&stack, call(1, READ)).await.unwrap();
    assert_eq!(script.gaps(), [3000]);
}

#[tokio::test(start_paused = true)]
async fn a_requested_pause_longer_than_the_limit_is_reported_and_honoured() {
    let script = Script::new(|_| Err(limited(60)));
    let stack = EndpointStack::new(CHAIN_ID, vec![script.endpoint("one")], slow_rules()).unwrap();
    assert_eq!(ask(&stack, call(1, READ)).await.unwrap_err(), limited(60));
    // During the requested pause, a second read does not reach it.
    tokio::time::advance(Duration::from_secs(10)).await;
    let error = ask(&stack, call(2, READ)).await.unwrap_err();
    let ProviderError::RateLimited { retry_after: Some(left), .. } = error else { panic!("{error:?}") };
    assert_eq!(left, Duration::from_secs(50));
    assert_eq!(script.count(), 1);
    tokio::time::advance(Duration::from_secs(51)).await;
    ask(&stack, call(3, READ)).await.unwrap_err();
    assert_eq!(script.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rounds_cover_all_endpoints_except_those_that_cannot_help() {
    let refused =
        |status| ProviderError::Http { endpoint: SafeText::clean("script", 10), status, body: SafeText::clean("", 1) };
    let forbidden = Script::new(move |_| Err(refused(403)));
    let flaky = Script::new(|index| if index < 2 { Err(broken()) } else { Ok(()) });
    let endpoints = vec![forbidden.endpoint("one"), flaky.endpoint("two")];
    let stack = EndpointStack::new(CHAIN_ID, endpoints, slow_rules()).unwrap();
    ask(&stack, call(1, READ)).await.unwrap();
    assert_eq!((forbidden.count(), flaky.count()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn sends_are_never_repeated_whatever_the_rules_say() {
    for failure in [broken(), limited(0)] {
        let script = Script::new(move |_| Err(failure.clone()));
        let spare = Script::new(|_| Ok(()));
        let endpoints = vec![script.endpoint("one"), spare.endpoint("two")];
        let stack = EndpointStack::new(CHAIN_ID, endpoints, slow_rules()).unwrap();
        assert!(ask(&stack, call(1, SEND)).await.unwrap_err().is_outcome_unknown());
        assert_eq!((script.count(), spare.count()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_healthier_endpoint_is_asked_first() {
    let failing = Script::new(|_| Err(broken()));
    let good = Script::new(|_| Ok(()));
    let endpoints = vec![failing.endpoint("one"), good.endpoint("two")];
    let stack = EndpointStack::new(CHAIN_ID, endpoints, slow_rules()).unwrap();
    for id in 0..20 {
        ask(&stack, call(id, READ)).await.unwrap();
    }
    let asked = failing.count();
    assert!(asked < 5, "a failing endpoint was asked {asked} times of 20");
    assert_eq!(good.count(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_send_prefers_an_endpoint_without_a_requested_pause() {
    let limited = Script::new(|index| if index == 0 { Err(limited(60)) } else { Ok(()) });
    let spare = Script::new(|_| Ok(()));
    let endpoints = vec![limited.endpoint("one"), spare.endpoint("two")];
    let stack = EndpointStack::new(CHAIN_ID, endpoints, slow_rules()).unwrap();
    ask(&stack, call(1, READ)).await.unwrap();
    ask(&stack, call(2, SEND)).await.unwrap();
    assert_eq!((limited.count(), spare.count()), (1, 2));
}
