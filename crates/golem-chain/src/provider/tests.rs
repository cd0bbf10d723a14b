//! Tests of the stack against misbehaving servers.
//!
//! For servers that do not answer, the endpoint's timeout is short; for those that must answer, it is minutes. Waits
//! between rounds are tested on a paused clock without sockets.

mod ahead;
mod connect;
mod repeats;
mod server;

use super::*;
use alloy::{
    providers::{Provider, ProviderBuilder},
    rpc::{
        client::RpcClient,
        json_rpc::{Id, Request, RequestPacket, ResponsePacket, SerializedRequest},
    },
    transports::{TransportError, TransportFut},
};
use bardo_base::{clock::SystemClock, config::RpcUrl, text::SafeText};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use server::{CHAIN_ID, Reaction, Server, dead_url, good_answer};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tower::Service as _;

const PATIENT: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(60);

fn rules(rounds: u32) -> RetryRules {
    RetryRules {
        rounds,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_secs(5),
        total: PATIENT,
        jitter: Jitter::Off,
    }
}

fn endpoint_within(url: &str, timeout: Duration) -> Endpoint {
    let limits = HttpLimits { timeout, connect_timeout: PATIENT, max_body: 4096 };
    Endpoint::http(RpcUrl::parse(url).unwrap(), CHAIN_ID, limits, HealthThresholds::default(), Arc::new(SystemClock))
        .unwrap()
}

fn endpoint(url: &str) -> Endpoint {
    endpoint_within(url, PATIENT)
}

fn stack(endpoints: Vec<Endpoint>, rounds: u32) -> EndpointStack {
    EndpointStack::new(CHAIN_ID, endpoints, rules(rounds)).unwrap()
}

fn call(id: u64, method: &'static str) -> SerializedRequest {
    Request::new(method, Id::Number(id), [(); 0]).serialize().unwrap()
}

fn batch(methods: &[&'static str]) -> RequestPacket {
    (10_u64..).zip(methods).map(|(id, method)| call(id, method)).collect()
}

async fn ask(stack: &EndpointStack, packet: impl Into<RequestPacket>) -> Result<ResponsePacket, ProviderError> {
    stack.clone().call(packet.into()).await.map_err(ProviderError::from)
}

fn results(packet: &ResponsePacket) -> Vec<String> {
    packet.responses().iter().map(|response| response.payload.as_success().unwrap().get().to_owned()).collect()
}

const READ: &str = "eth_gasPrice";
const SEND: &str = "eth_sendRawTransaction";

#[tokio::test]
async fn a_read_moves_on_from_a_dead_endpoint() {
    let good = Server::good().await;
    let stack = stack(vec![endpoint(&dead_url().await), endpoint(&good.url)], 1);
    let answer = ask(&stack, call(1, READ)).await.unwrap();
    assert_eq!(results(&answer), ["\"eth_gasPrice\""]);
    assert_eq!(good.count(), 1);
}

#[tokio::test]
async fn a_read_moves_on_from_every_kind_of_bad_answer() {
    type Bad = fn(&Value) -> Reaction;
    let bad: [(&str, Bad); 10] = [
        ("closed", |_| Reaction::Close),
        ("cut", |question| Reaction::Cut(good_answer(question))),
        ("not JSON", |_| Reaction::Body("<html>busy</html>".into())),
        ("empty", |_| Reaction::Body(String::new())),
        ("wrong id", |_| Reaction::Body(json!({"jsonrpc": "2.0", "id": 99, "result": "0x1"}).to_string())),
        ("a list", |question| Reaction::Body(format!("[{}]", good_answer(question)))),
        ("endless", |_| Reaction::Endless),
        ("announced huge", |_| Reaction::Announce(1 << 40)),
        ("500", |_| Reaction::Status(500, "", "oops".into())),
        ("429", |_| Reaction::Status(429, "retry-after: 200\r\n", String::new())),
    ];
    for (name, react) in bad {
        let wrong = Server::start(CHAIN_ID, move |_, question| react(question)).await;
        let good = Server::good().await;
        let stack = stack(vec![endpoint(&wrong.url), endpoint(&good.url)], 3);
        let answer = ask(&stack, call(1, READ)).await;
        assert_eq!(results(&answer.unwrap_or_else(|error| panic!("{name}: {error}"))), ["\"eth_gasPrice\""], "{name}");
        assert_eq!((wrong.count(), good.count()), (1, 1), "{name}");
    }
}

fn no_header(question: &Value) -> Reaction {
    let error = json!({"code": -32000, "message": "header not found"});
    Reaction::Body(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string())
}

#[tokio::test]
async fn a_read_moves_on_from_an_endpoint_that_lacks_the_block_and_retries_it() {
    let behind = Server::start(CHAIN_ID, |_, question| no_header(question)).await;
    let good = Server::good().await;
    let both = stack(vec![endpoint(&behind.url), endpoint(&good.url)], 3);
    assert_eq!(results(&ask(&both, call(1, READ)).await.unwrap()), ["\"eth_gasPrice\""]);
    assert_eq!((behind.count(), good.count()), (1, 1));
    // As the only endpoint, it gets time to catch up.
    let catching_up = Server::start(CHAIN_ID, |index, question| match index {
        0 | 1 => no_header(question),
        _ => Reaction::Body(good_answer(question)),
    })
    .await;
    let answer = ask(&stack(vec![endpoint(&catching_up.url)], 3), call(1, READ)).await.unwrap();
    assert_eq!((results(&answer), catching_up.count()), (vec!["\"eth_gasPrice\"".to_owned()], 3));
}

#[tokio::test]
async fn a_block_that_no_endpoint_has_returns_the_endpoints_error() {
    let behind = Server::start(CHAIN_ID, |_, question| no_header(question)).await;
    let broken = Server::start(CHAIN_ID, |_, _| Reaction::Close).await;
    let stack = stack(vec![endpoint(&behind.url), endpoint(&broken.url)], 3);
    let answer = ask(&stack, call(1, READ)).await.unwrap();
    let error = answer.first_error_message().expect("a refusal");
    assert_eq!((error, behind.count(), broken.count()), ("header not found", 3, 3));
}

#[tokio::test]
async fn each_bad_answer_has_an_error_of_its_own() {
    type Bad = fn(&Value) -> Reaction;
    let bad: [(Bad, &str); 9] = [
        (|_| Reaction::Close, "connection closed"),
        (|question| Reaction::Cut(good_answer(question)), "connection closed"),
        (|_| Reaction::Body("{\"jsonrpc\"".into()), "not a JSON-RPC response"),
        (|_| Reaction::Body(json!({"id": 99, "result": 1}).to_string()), "id 99, which was not requested"),
        (|question| Reaction::Body(format!("[{}]", good_answer(question))), "received a list instead of one response"),
        (|_| Reaction::Endless, "larger than the limit of 4096 bytes"),
        (|_| Reaction::Announce(4097), "larger than the limit of 4096 bytes"),
        (|_| Reaction::Status(401, "", "no\u{1b}[31m such \u{202e}project".into()), "HTTP status 401 (no"),
        (|_| Reaction::Status(429, "retry-after: 200\r\n", String::new()), "it asks to wait 200000 ms"),
    ];
    for (react, expected) in bad {
        let wrong = Server::start(CHAIN_ID, move |_, question| react(question)).await;
        let error = ask(&stack(vec![endpoint(&wrong.url)], 1), call(1, READ)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "expected {expected:?} in {text:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "unclean: {text:?}");
    }
}

#[tokio::test]
async fn a_silent_endpoint_times_out_and_the_next_answers() {
    let silent = Server::start(CHAIN_ID, |_, _| Reaction::Silence).await;
    let good = Server::good().await;
    let alone = stack(vec![endpoint_within(&silent.url, SHORT)], 1);
    // On a slow machine the timeout may already occur while the chain id is read; both are timeouts.
    assert!(matches!(ask(&alone, call(1, READ)).await, Err(ProviderError::TimedOut { after: SHORT, .. })));
    let both = stack(vec![endpoint_within(&silent.url, SHORT), endpoint(&good.url)], 1);
    assert_eq!(results(&ask(&both, call(1, READ)).await.unwrap()), ["\"eth_gasPrice\""]);
}

#[tokio::test]
async fn batches_are_checked_member_by_member() {
    let asked = ["eth_gasPrice", "eth_blockNumber", "net_version"];
    let member = |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": "0x1"});
    let cases = [
        (json!([member(10), member(12)]), "1 of 3 calls of the batch have no response"),
        (json!([]), "3 of 3 calls"),
        (json!([member(10), member(10), member(11), member(12)]), "id 10 has two responses"),
        (json!([member(10), member(11), member(13)]), "id 13, which was not requested"),
        (member(10), "received one response instead of a list of responses"),
        (json!({"id": null, "error": {"code": -32600, "message": "no batches\u{7}"}}), "code -32600): no batches"),
    ];
    for (body, expected) in cases {
        let wrong = Server::start(CHAIN_ID, move |_, _| Reaction::Body(body.to_string())).await;
        let error = ask(&stack(vec![endpoint(&wrong.url)], 1), batch(&asked)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "expected {expected:?} in {error}");
    }
    // The order of the responses does not matter.
    let shuffled =
        Server::start(CHAIN_ID, move |_, _| Reaction::Body(json!([member(12), member(10), member(11)]).to_string()))
            .await;
    assert_eq!(ask(&stack(vec![endpoint(&shuffled.url)], 1), batch(&asked)).await.unwrap().responses().len(), 3);
}

#[tokio::test]
async fn a_send_whose_answer_is_lost_goes_out_once_and_says_so() {
    type Bad = fn(&Value) -> Reaction;
    let bad: [(&str, Bad); 11] = [
        ("silence", |_| Reaction::Silence),
        ("closed", |_| Reaction::Close),
        ("cut", |question| Reaction::Cut(good_answer(question))),
        ("not JSON", |_| Reaction::Body("<html>".into())),
        ("wrong id", |_| Reaction::Body(json!({"id": 99, "result": "0x1"}).to_string())),
        ("endless", |_| Reaction::Endless),
        ("500", |_| Reaction::Status(500, "", String::new())),
        ("502", |_| Reaction::Status(502, "", String::new())),
        ("429", |_| Reaction::Status(429, "retry-after: 0\r\n", String::new())),
        ("307", |_| Reaction::Status(307, "location: /elsewhere\r\n", String::new())),
        ("403", |_| Reaction::Status(403, "", String::new())),
    ];
    for (name, react) in bad {
        for packet in [RequestPacket::Single(call(1, SEND)), batch(&[READ, SEND])] {
            let wrong = Server::start(CHAIN_ID, move |_, question| react(question)).await;
            let good = Server::good().await;
            let first = endpoint_within(&wrong.url, if name == "silence" { Duration::from_secs(1) } else { PATIENT });
            first.verify().await.unwrap();
            let error = ask(&stack(vec![first, endpoint(&good.url)], 5), packet).await.unwrap_err();
            assert!(error.is_outcome_unknown(), "{name}: {error}");
            assert!(!error.nothing_sent(), "{name}");
            assert!(error.to_string().contains("outcome of eth_sendRawTransaction is unknown"), "{error}");
            assert_eq!((wrong.count(), good.count()), (1, 0), "{name}");
        }
    }
}

#[tokio::test]
async fn a_read_is_retried_after_a_temporary_error_and_a_lasting_one_is_returned() {
    let trouble = |question: &Value| {
        let error = json!({"code": -32603, "message": "internal error"});
        Reaction::Body(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string())
    };
    let passing = Server::start(CHAIN_ID, move |index, question| match index {
        0 | 1 => trouble(question),
        _ => Reaction::Body(good_answer(question)),
    })
    .await;
    let answer = ask(&stack(vec![endpoint(&passing.url)], 3), call(1, READ)).await.unwrap();
    assert_eq!((results(&answer), passing.count()), (vec!["\"eth_gasPrice\"".to_owned()], 3));
    // The same applies if a single error refuses a whole batch.
    let passing = Server::start(CHAIN_ID, move |index, question| match index {
        0 => {
            Reaction::Body(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "x"}}).to_string())
        }
        _ => Reaction::Body(good_answer(question)),
    })
    .await;
    let answer = ask(&stack(vec![endpoint(&passing.url)], 3), batch(&[READ, READ])).await.unwrap();
    assert_eq!((results(&answer).len(), passing.count()), (2, 2));
    // The other endpoint is tried at once.
    let (lasting, good) = (Server::start(CHAIN_ID, move |_, question| trouble(question)).await, Server::good().await);
    let both = stack(vec![endpoint(&lasting.url), endpoint(&good.url)], 3);
    assert_eq!(results(&ask(&both, call(1, READ)).await.unwrap()), ["\"eth_gasPrice\""]);
    assert_eq!((lasting.count(), good.count()), (1, 1));
    // A permanent failure is the answer, in the endpoint's own words.
    let alone = ask(&stack(vec![endpoint(&lasting.url)], 3), call(1, READ)).await.unwrap();
    assert_eq!((alone.iter_errors().map(|error| error.code).collect::<Vec<_>>(), lasting.count()), (vec![-32603], 4));
}

#[tokio::test]
async fn a_send_moves_on_only_while_nothing_was_sent() {
    let wrong_chain = Server::start(1, |_, question| Reaction::Body(good_answer(question))).await;
    let good = Server::good().await;
    let spare = Server::good().await;
    let endpoints =
        vec![endpoint(&dead_url().await), endpoint(&wrong_chain.url), endpoint(&good.url), endpoint(&spare.url)];
    ask(&stack(endpoints, 5), call(1, SEND)).await.unwrap();
    assert_eq!((wrong_chain.count(), good.count(), spare.count()), (0, 1, 0));

    let nobody = stack(vec![endpoint(&dead_url().await), endpoint(&wrong_chain.url)], 5);
    let error = ask(&nobody, call(1, SEND)).await.unwrap_err();
    assert!(error.nothing_sent() && !error.is_outcome_unknown(), "{error}");
    assert_eq!(wrong_chain.count(), 0);
}

#[tokio::test]
async fn a_rejection_of_a_send_is_a_final_answer() {
    let refusing = Server::start(CHAIN_ID, |_, question| {
        let error = json!({"code": -32000, "message": "nonce too low\u{1b}[2J"});
        Reaction::Body(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string())
    })
    .await;
    let spare = Server::good().await;
    let provider = provider(stack(vec![endpoint(&refusing.url), endpoint(&spare.url)], 5));
    let error = ProviderError::from(provider.send_raw_transaction(&[1, 2, 3]).await.unwrap_err());
    let ProviderError::Rpc { code: -32000, message, .. } = &error else { panic!("{error:?}") };
    assert!(message.as_str().starts_with("nonce too low") && !message.as_str().contains('\u{1b}'), "{message:?}");
    assert_eq!((refusing.count(), spare.count()), (1, 0));
}

#[tokio::test]
async fn a_gateway_error_leaves_the_outcome_of_a_send_unknown() {
    let said =
        |code: i64, message: &str| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}});
    for (status, body) in [
        (504, said(-32000, "no answer from upstream")),
        (502, said(-32000, "nonce too low")),
        (200, said(-32000, "upstream request timed out")),
        (200, said(-32603, "internal error")),
        (200, said(-32002, "resource unavailable")),
    ] {
        let gateway = Server::start(CHAIN_ID, move |_, _| match status {
            200 => Reaction::Body(body.to_string()),
            _ => Reaction::Status(status, "", body.to_string()),
        })
        .await;
        let spare = Server::good().await;
        let stack = stack(vec![endpoint(&gateway.url), endpoint(&spare.url)], 5);
        let error = ProviderError::from(stack.clone().call(call(1, SEND).into()).await.unwrap_err());
        assert!(error.is_outcome_unknown(), "{status}: {error:?}");
        assert_eq!((gateway.count(), spare.count()), (1, 0), "{status}");
    }
}

fn provider(stack: EndpointStack) -> impl Provider {
    ProviderBuilder::new().disable_recommended_fillers().connect_client(RpcClient::new(stack, false))
}

#[tokio::test]
async fn a_wrong_chain_is_named_and_never_asked() {
    let mainnet = Server::start(1, |_, question| Reaction::Body(good_answer(question))).await;
    let error = ask(&stack(vec![endpoint(&mainnet.url)], 5), call(1, READ)).await.unwrap_err();
    assert!(matches!(error, ProviderError::WrongChain { expected: CHAIN_ID, found: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("expected id 31337, found id 1"), "{error}");
    assert_eq!(mainnet.count(), 0);
}

#[tokio::test]
async fn keys_in_urls_never_appear_in_messages() {
    const KEYS: [&str; 4] = ["hunter2", "k3y-in-the-path", "k3y-in-query", "operator"];
    let with_key = |url: &str| {
        let host = url.strip_prefix("http://").unwrap();
        format!("http://operator:hunter2@{host}/v2/k3y-in-the-path?apikey=k3y-in-query")
    };
    let told = |text: &str| {
        let found = KEYS.iter().find(|key| text.contains(*key));
        assert_eq!(found, None, "in {text:?}");
    };
    let echo = Server::start(CHAIN_ID, |_, _| {
        Reaction::Status(403, "", "project k3y-in-the-path (apikey=k3y-in-query) is not known to operator".into())
    })
    .await;
    let silent = Server::start(CHAIN_ID, |_, _| Reaction::Close).await;
    let html = Server::start(CHAIN_ID, |_, _| Reaction::Body("k3y-in-the-path".into())).await;
    let quoted = Server::start(CHAIN_ID, |_, _| Reaction::Body("\"bad key k3y-in-the-path\"".into())).await;
    let refusal = |question: &serde_json::Value| {
        let error = json!({"code": -32000, "message": "key k3y-in-the-path is invalid", "data": "k3y-in-query"});
        json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string()
    };
    let refused = Server::start(CHAIN_ID, move |_, question| Reaction::Status(401, "", refusal(question))).await;
    let answered = Server::start(CHAIN_ID, move |_, question| Reaction::Body(refusal(question))).await;
    // The packet itself carries the error here, so it is read as a caller of alloy would.
    for url in [&refused.url, &answered.url] {
        let provider = provider(stack(vec![endpoint(&with_key(url))], 2));
        let error = provider.get_block_number().await.unwrap_err();
        told(&format!("{error} {error:?}"));
        let error = ProviderError::from(error);
        assert!(error.to_string().contains("[removed]"), "{error}");
        told(&format!("{error} {error:?}"));
    }
    for url in [dead_url().await, echo.url.clone(), silent.url.clone(), html.url.clone(), quoted.url.clone()] {
        let endpoint = endpoint(&with_key(&url));
        let stack = stack(vec![endpoint.clone()], 2);
        for method in [READ, SEND] {
            let error = stack.clone().call(call(1, method).into()).await.unwrap_err();
            told(&format!("{error} {error:?} {:?}", endpoint.health()));
            told(&ProviderError::from(error).to_string());
        }
        told(&format!("{endpoint:?} {stack:?} {}", endpoint.label()));
    }
}

#[test]
fn a_websocket_url_is_refused_with_what_would_do() {
    let url = RpcUrl::parse("wss://example.org/k3y-in-the-path").unwrap();
    let made = CappedHttp::new(url, HttpLimits::default(), Arc::new(SystemClock));
    let error = made.unwrap_err().to_string();
    assert_eq!(error, "wss://example.org/…: requests need http:// or https://; use such a URL of the same endpoint");
}

#[test]
fn a_foreign_transport_error_never_promises_that_nothing_was_sent() {
    let error = ProviderError::from(alloy::transports::TransportErrorKind::custom_str("gone\u{1b}[0m"));
    assert!(!error.nothing_sent(), "{error:?}");
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
}

#[derive(Debug)]
struct FixedClock(u64);

impl bardo_base::clock::Clock for FixedClock {
    fn now_millis(&self) -> u64 {
        self.0 * 1000
    }
}

#[tokio::test]
async fn the_monitor_sees_lag_age_and_wrong_chains() {
    let at = |number: u64, timestamp: u64| {
        move |_: usize, question: &Value| {
            let block = json!({"number": format!("{number:#x}"), "timestamp": format!("{timestamp:#x}")});
            Reaction::Body(server::result(question, block))
        }
    };
    let (ahead, also_ahead) =
        (Server::start(CHAIN_ID, at(110, 1_000)).await, Server::start(CHAIN_ID, at(110, 1_000)).await);
    let behind = Server::start(CHAIN_ID, at(100, 880)).await;
    let stranger = Server::start(1, at(9_999, 1_000)).await;
    let mut endpoints =
        vec![endpoint(&behind.url), endpoint(&ahead.url), endpoint(&stranger.url), endpoint(&dead_url().await)];
    // The lag is measured against a block that two endpoints have reached.
    endpoints.push(endpoint(&also_ahead.url));
    let patience = MonitorRules { patience: PATIENT, ..MonitorRules::default() };
    let (mut monitor, handle) = EndpointMonitor::new(CHAIN_ID, endpoints, patience, Arc::new(FixedClock(1_010)));
    assert_eq!(handle.now().condition, EndpointCondition::Unproven);
    // A new endpoint may count as healthy before its lag is known; three polls settle it.
    for _ in 0..5 {
        monitor.poll().await;
    }
    let health = handle.now();
    assert_eq!(health.condition, EndpointCondition::Healthy);
    assert_eq!(health.head, Some(BlockHead { number: 110, timestamp: 1_000 }));
    assert_eq!(health.age, Some(Duration::from_secs(10)));
    let conditions: Vec<_> = health.endpoints.iter().map(EndpointHealth::condition).collect();
    let rest = [EndpointCondition::Down, EndpointCondition::Down, EndpointCondition::Healthy];
    assert_eq!(conditions, [[EndpointCondition::Degraded, EndpointCondition::Healthy].as_slice(), &rest].concat());
    assert_eq!(health.endpoints[0].lag_blocks, Some(10));
    assert_eq!(health.endpoints[2].chain_id, Some(1));
    assert_eq!(stranger.count(), 0, "a wrong chain was asked for its head");
    assert!(health.endpoints[3].last_error.as_ref().unwrap().as_str().contains("cannot connect"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Any bytes end in an answer or an error.
    #[test]
    fn any_response_body_is_handled_without_a_panic(cut in 0_usize..200, noise in any::<u8>(), at in 0_usize..200) {
        let body = good_answer(&json!([{"id": 10, "method": "a"}, {"id": 11, "method": "b"}]));
        let mut bytes = body.into_bytes();
        bytes.truncate(cut);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = noise;
        }
        if let Ok(answer) = serde_json::from_slice::<ResponsePacket>(&bytes)
            && let Ok(checked) = answer::check(&batch(&["a", "b"]), answer, &SafeText::clean("x", 1))
        {
            prop_assert_eq!(checked.responses().len(), 2);
        }
    }
}
