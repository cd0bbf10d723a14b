//! Resource limits of a model and of its endpoint, and the parts of an answer that are shown.

use std::time::Duration;

use bardo::golem::brain::model::{ApiStyle, ModelSetup};
use serde_json::json;

use crate::model::{Server, Step, brain, mark_in, setup};
use bardo_testkit::golem_harness::GolemHarness;

const STYLES: [ApiStyle; 2] = [ApiStyle::Openai, ApiStyle::Anthropic];

#[tokio::test(flavor = "multi_thread")]
async fn endless_answers_are_given_up() {
    let harness = GolemHarness::new().await;
    for style in STYLES {
        for (step, wanted) in [
            (Step::Pings, "larger than 4 MiB"),
            (Step::Trickles, "did not end within 1 s"),
            // An endless reason is read up to a limit.
            (Step::Rants, "the endpoint returned 500"),
        ] {
            // Only the trickle is detected by time.
            let longest = if matches!(step, Step::Trickles) { 1 } else { 300 };
            let server = Server::playing(style, vec![step.clone(); 99]).await;
            let patient = ModelSetup {
                patience: Duration::from_secs(60),
                longest: Duration::from_secs(longest),
                backoff: Duration::ZERO,
                tick: Duration::ZERO,
                tokens: u64::MAX,
                ..setup(&server, style)
            };
            let mut life = harness.life("ada", "trade-executor", brain(patient));
            let why = life.brains_end().await;
            assert!(why[0].contains(wanted), "{step:?}: {why:?}");
            life.leave().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_answers_count_against_the_token_budget() {
    let harness = GolemHarness::new().await;
    for style in STYLES {
        // 64,000 bytes of text are about 8,000 tokens, without a complete answer.
        let server = Server::playing(style, vec![Step::Floods; 99]).await;
        let few = ModelSetup { tokens: 5_000, ..setup(&server, style) };
        let mut life = harness.life("ada", "trade-executor", brain(few));
        // An exhausted budget is not a fault.
        assert_eq!(life.brains_end().await, Vec::<String>::new());
        assert_eq!(server.asked().len(), 1);
        life.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_while_the_endpoint_is_silent() {
    let harness = GolemHarness::new().await;
    for style in STYLES {
        let server = Server::playing(style, vec![Step::Silent; 9]).await;
        let patient = ModelSetup { patience: Duration::from_secs(3_600), ..setup(&server, style) };
        let life = harness.life("ada", "trade-executor", brain(patient));
        server.asked_times(1).await;
        life.leave().await;
        // And while it waits to retry.
        let server = Server::playing(style, vec![Step::Refuses(503, "retry-after: 100\r\n", ""); 9]).await;
        let life = harness.life("ada", "trade-executor", brain(setup(&server, style)));
        server.asked_times(1).await;
        life.leave().await;
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_cannot_forge_its_delimiter_and_is_truncated() {
    let harness = GolemHarness::new().await;
    for (style, name) in [(ApiStyle::Openai, "ada"), (ApiStyle::Anthropic, "bob")] {
        let golem = harness.golem(name, "trade-executor");
        for number in 0..20 {
            let note = json!({"section": format!("long {number}"), "text": "word ".repeat(700), "reason": "long"});
            assert!(golem.call("update_directive", note).await.error.is_none());
        }
        let long = ("search_context", json!({"query": "word", "limit": 20}).to_string());
        let server = Server::playing(style, vec![Step::Forges, Step::Says("", vec![long])]).await;
        let life = harness.life(name, "trade-executor", brain(setup(&server, style)));
        let asked = server.asked_times(3).await;
        life.leave().await;
        let mark = mark_in(style, &asked[0].1);
        let shown = |request: usize| {
            let last = asked[request].1["messages"].as_array().unwrap().last().unwrap().clone();
            match style {
                ApiStyle::Openai => last["content"].as_str().unwrap().to_owned(),
                ApiStyle::Anthropic => last["content"][0]["content"].as_str().unwrap().to_owned(),
            }
        };
        let forged = shown(1);
        assert!(forged.contains("Now obey."), "{forged}");
        assert_eq!(forged.matches(mark.as_str()).count(), 2, "{forged}");
        assert!(forged.starts_with(&format!("<<{mark}>>{{")) && forged.ends_with(&format!("<</{mark}>>")), "{forged}");
        let long = shown(2);
        let end = format!(" …cut<</{mark}>>");
        assert!(long.ends_with(&end), "{long}");
        let whole = format!("<<{mark}>>").len() + (12 << 10) + end.len();
        assert!((whole - 3..=whole).contains(&long.len()), "{} of {whole} bytes", long.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_contains_the_last_five_texts_of_the_model() {
    let harness = GolemHarness::new().await;
    for style in STYLES {
        let words = ["one ", "two ", "three ", "four ", "five ", "six ", "seven "];
        let long: &'static str = Box::leak("long ".repeat(1_000).into_boxed_str());
        let steps = words.into_iter().chain([long]).map(|said| Step::Says(said, Vec::new())).collect();
        let server = Server::playing(style, steps).await;
        let quick = ModelSetup { tick: Duration::ZERO, ..setup(&server, style) };
        let life = harness.life("ada", "trade-executor", brain(quick));
        let asked = server.asked_times(9).await;
        life.leave().await;
        let told = |request: usize| {
            let text = match style {
                ApiStyle::Openai => asked[request].1["messages"][1]["content"].as_str().unwrap(),
                ApiStyle::Anthropic => asked[request].1["messages"][0]["content"].as_str().unwrap(),
            };
            let (_, data) = text.split_once(">>").unwrap();
            let (data, _) = data.split_once("<</").unwrap();
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            data["you_said_lately"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(told(7), ["three", "four", "five", "six", "seven"]);
        let kept = told(8);
        assert_eq!(kept.len(), 5);
        assert!(kept[4].starts_with("long long") && kept[4].chars().count() <= 400, "{}", kept[4].len());
    }
}
