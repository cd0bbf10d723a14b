//! Tests of catalog and executor with purpose-made tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EndState, EventKind, Fabric, Receiver};
use bardo_base::id::GolemId;
use bardo_base::model::*;

#[derive(Debug)]
struct TestAccount(AtomicU64);

impl Clock for TestAccount {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Params {
    /// Action of the probe.
    mode: String,
    /// Number to double, or the time to sleep in milliseconds.
    #[serde(default)]
    times: u32,
    /// Secret that is never shown.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, rename = "pin")]
    _pin: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    mode: String,
    doubled: u64,
}

const GUIDELINES: Guidelines = Guidelines {
    thriving: "Call it.",
    cautious: "Call it with care.",
    declining: "Call it for exits.",
    terminal: "Leave it.",
    memory: None,
};

const META: ToolMeta = ToolMeta {
    name: "probe",
    description: "Does what the test wants.",
    category: Category::Data,
    capability: CapabilityTier::Read,
    risk_tier: RiskTier::Layer1,
    tick_budget: TickBudget::Fast,
    progress_steps: &["Looking", "Doubling"],
    sprite_trigger: SpriteTrigger::Thinking,
    prompt_snippet: "Probes.",
    prompt_guidelines: GUIDELINES,
    idempotent: true,
    action_class: ActionClass::ReadOnly,
    checks: &[Check::RateLimit],
    event_params: &["mode", "pin"],
    summary_fields: &["doubled"],
    card: Some(CardKind::Quote),
    spenders: &[],
};

struct Probe;

impl ReadTool for Probe {
    const META: ToolMeta = META;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"mode": "double", "times": 2})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Looking");
        match params.mode.as_str() {
            "panic" => panic!("no \u{1b}[31mway"),
            "fail" => return Err(ToolError::new(ErrorCode::TokenNotFound, "no token `X` on ethereum")),
            "sleep" => tokio::time::sleep(Duration::from_millis(u64::from(params.times))).await,
            "hang" => std::future::pending().await,
            _ => {}
        }
        context.step("Doubling");
        let output = Output { mode: params.mode, doubled: u64::from(params.times) * 2 };
        Ok(ToolReply::new(output, "It was doubled.").hint(json!({"again": false})))
    }
}

/// Declares a copy of the probe with changed metadata.
macro_rules! variant {
    ($type:ident, $static:ident, |$meta:ident| $change:block) => {
        struct $type;
        impl ReadTool for $type {
            const META: ToolMeta = {
                let mut $meta = META;
                $change
                $meta
            };
            type Params = Params;
            type Output = Output;
            fn example() -> Value {
                Probe::example()
            }
            async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
                Probe::run(context, params).await
            }
        }
        static $static: ToolDef = ToolDef::read::<$type>();
    };
}

static PROBE: ToolDef = ToolDef::read::<Probe>();
variant!(Swapper, SWAPPER, |meta| {
    meta.name = "quote";
    meta.category = Category::Trading;
});
variant!(Vpin, VPIN, |meta| {
    meta.name = "compute_vpin";
    meta.category = Category::Intelligence;
});
variant!(Store, STORE, |meta| {
    meta.name = "recall";
    meta.category = Category::Memory;
});
variant!(Unnamed, UNNAMED, |meta| {
    meta.name = "Get-Quote";
});
variant!(Silent, SILENT, |meta| {
    meta.name = "silent";
    meta.prompt_guidelines.terminal = " ";
});
variant!(Summing, SUMMING, |meta| {
    meta.name = "summing";
    meta.summary_fields = &["trebled"];
});
variant!(Showing, SHOWING, |meta| {
    meta.name = "showing";
    meta.event_params = &["mood"];
});

/// Parameters that accept unknown fields, which the catalog must refuse.
#[derive(Debug, Deserialize, JsonSchema)]
struct Open {
    #[expect(dead_code, reason = "only its schema matters")]
    mode: String,
}

struct OpenOutput;

impl ReadTool for OpenOutput {
    const META: ToolMeta = META;
    type Params = Open;
    type Output = Output;

    fn example() -> Value {
        json!({"mode": "x"})
    }

    async fn run(_: &CallContext, _: Open) -> Result<ToolReply<Output>, ToolError> {
        Ok(ToolReply::new(Output { mode: String::new(), doubled: 0 }, ""))
    }
}

struct WrongOutput;

impl ReadTool for WrongOutput {
    const META: ToolMeta = META;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"mode": 7})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        Probe::run(context, params).await
    }
}

static LOOSE: ToolDef = ToolDef::read::<OpenOutput>();
static MISFIT: ToolDef = ToolDef::read::<WrongOutput>();

struct ExecutorHarness {
    executor: Executor,
    events: Receiver,
    clock: Arc<TestAccount>,
    _fabric: Fabric,
}

fn bench(calls_per_minute: u32, hooks: Vec<Arc<dyn Hook>>) -> ExecutorHarness {
    bench_with(calls_per_minute, hooks, None)
}

fn bench_of(tools: &[&'static ToolDef]) -> ExecutorHarness {
    harness_of(tools, 60, vec![], None)
}

fn bench_with(calls_per_minute: u32, hooks: Vec<Arc<dyn Hook>>, store: Option<bardo_store::Store>) -> ExecutorHarness {
    harness_of(&[&PROBE, &SWAPPER], calls_per_minute, hooks, store)
}

fn harness_of(
    tools: &[&'static ToolDef],
    calls_per_minute: u32,
    hooks: Vec<Arc<dyn Hook>>,
    store: Option<bardo_store::Store>,
) -> ExecutorHarness {
    let clock = Arc::new(TestAccount(AtomicU64::new(1_000_000)));
    let fabric = Fabric::in_memory(1_000, clock.clone());
    let events = fabric.subscribe(1_000);
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(tools.iter().copied()).unwrap(),
        world: Arc::new(ToolEnvironment::new(clock.clone(), None, vec![], vec![])),
        fabric: fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute,
        hooks,
        store,
        acting: None,
    });
    ExecutorHarness { executor, events, clock, _fabric: fabric }
}

impl ExecutorHarness {
    async fn call(&self, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new("probe", ToolInput::Json(params))).await
    }

    /// Formats the events so far, each by its kind and main values.
    fn told(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while self.events.try_receive(&mut events, 100) {}
        events
            .iter()
            .map(|event| match &event.kind {
                EventKind::ToolStart(start) => format!("start {} {}", start.tool_name, start.params.value()),
                EventKind::ToolUpdate(update) => format!("step {} {}/{}", update.step, update.index, update.of),
                EventKind::ToolOverrun(overrun) => format!("overrun {}", overrun.budget_ms),
                EventKind::ToolError(failed) => format!("error {}", failed.error_code),
                EventKind::ToolEnd(end) => format!("end {} {}", end.success, end.result_summary),
                other => format!("{other:?}"),
            })
            .collect()
    }
}

fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

#[tokio::test]
async fn a_call_answers_and_emits_its_events() {
    let mut bench = bench(60, vec![]);
    let response = bench.call(json!({"mode": "double", "times": 21, "pin": "4711"})).await;
    assert_eq!(response.status, CallStatus::Success);
    assert_eq!(response.data, Some(json!({"mode": "double", "doubled": 42})));
    assert_eq!(response.decision_hints, Some(json!({"again": false})));
    assert_eq!(response.explanation.as_deref(), Some("It was doubled."));
    assert_eq!(
        bench.told(),
        [
            r#"start probe {"mode":"double","pin":"[secret removed]"}"#,
            "step Looking 1/2",
            "step Doubling 2/2",
            r#"end true {"doubled":42}"#,
        ]
    );
}

/// The quote of a form that is being filled in is nobody's call. What changes or signs something is always reported.
#[tokio::test]
async fn a_read_that_nobody_asked_for_emits_no_event_and_anything_else_does() {
    let mut bench = bench_of(&[&PROBE, &FORGETTER]);
    let unreported =
        |tool: &str, params: Value| ToolCall { unreported: true, ..ToolCall::new(tool, ToolInput::Json(params)) };
    let read = bench.executor.call(unreported("probe", json!({"mode": "double", "times": 21}))).await;
    assert_eq!(read.data, Some(json!({"mode": "double", "doubled": 42})));
    for (params, wanted) in [
        (json!({"mode": "fail"}), ErrorCode::TokenNotFound),
        (json!({"mode": "panic"}), ErrorCode::ToolPanicked),
        (json!({"tiems": 1}), ErrorCode::ValidationFailed),
    ] {
        assert_eq!(code(&bench.executor.call(unreported("probe", params)).await), Some(wanted));
    }
    assert_eq!(bench.told(), [""; 0]);
    bench.executor.call(unreported("forget", json!({"mode": "double", "times": 4}))).await;
    assert!(bench.told().iter().any(|event| event.starts_with("start forget")));
}

#[tokio::test]
async fn the_last_event_has_the_outcome_of_the_call() {
    for (mode, said) in [("double", EndState::Done), ("fail", EndState::NotDone)] {
        let mut bench = bench(60, vec![]);
        bench.call(json!({"mode": mode, "times": 21})).await;
        let mut events = Vec::new();
        while bench.events.try_receive(&mut events, 100) {}
        let states: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ToolEnd(end) => Some(end.state),
                _ => None,
            })
            .collect();
        assert_eq!(states, [Some(said)], "{mode}");
    }
}

#[tokio::test]
async fn a_failing_tool_is_an_error_in_the_envelope() {
    let mut bench = bench(60, vec![]);
    let response = bench.call(json!({"mode": "fail"})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::TokenNotFound)));
    assert_eq!(bench.told()[2..], ["error TOKEN_NOT_FOUND", "end false null"]);
}

#[tokio::test]
async fn a_panicking_tool_is_an_error_in_the_envelope() {
    let mut bench = bench(60, vec![]);
    let response = bench.call(json!({"mode": "panic"})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::ToolPanicked)));
    let message = response.error.unwrap().message().to_owned();
    assert!(message.contains("probe panicked: no") && !message.contains('\u{1b}'), "{message}");
    assert_eq!(bench.told()[2..], ["error TOOL_PANICKED", "end false null"]);
}

#[tokio::test]
async fn bad_parameters_and_unknown_tools_are_explained() {
    let mut bench = bench(60, vec![]);
    let response = bench.call(json!({"mode": "double", "tiems": 2})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::ValidationFailed)));
    let error = response.error.unwrap();
    assert!(error.message().contains("did you mean `times`?"), "{error}");
    assert!(error.suggestion().contains(r#"{"mode":"double","times":2}"#), "{}", error.suggestion());
    assert_eq!(
        bench.told(),
        [
            r#"start probe {"mode":"[not recorded]","tiems":"[not recorded]"}"#,
            "error VALIDATION_FAILED",
            "end false null"
        ]
    );

    let input = ToolInput::Text(r#"{"phrase": "hunter2"}"#.into());
    let response = bench.executor.call(ToolCall::new("prob\u{1b}e", input)).await;
    assert_eq!(code(&response), Some(ErrorCode::ToolUnknown));
    assert!(response.error.unwrap().suggestion().contains("`probe`"));
    let told = bench.told();
    assert_eq!(told[1..], ["error TOOL_UNKNOWN", "end false null"]);
    assert!(!told[0].contains('\u{1b}'));
    assert!(told[0].ends_with(r#" {"phrase":"[not recorded]"}"#), "{}", told[0]);
}

#[tokio::test]
async fn calls_beyond_the_rate_are_blocked_until_the_window_frees_a_place() {
    let bench = bench(2, vec![]);
    for _ in 0..2 {
        assert_eq!(bench.call(json!({"mode": "double"})).await.status, CallStatus::Success);
    }
    let response = bench.call(json!({"mode": "double"})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Blocked, Some(ErrorCode::SafetyRateLimited)));
    let json = serde_json::to_value(&response).unwrap();
    assert_eq!(
        json["error"]["details"]["violations"],
        json!([{"rule": "max_tool_calls_per_minute", "limit": "2", "value": "3", "would_pass": "the same call in 60 s",
                "figures": {"unit": "count", "limit": "2", "value": "3", "left": "0", "frees_in_seconds": 60}}])
    );
    bench.clock.0.fetch_add(59_999, Ordering::SeqCst);
    assert_eq!(bench.call(json!({"mode": "double"})).await.status, CallStatus::Blocked);
    bench.clock.0.fetch_add(1, Ordering::SeqCst);
    assert_eq!(bench.call(json!({"mode": "double"})).await.status, CallStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn a_call_past_its_budget_reports_the_overrun_and_continues() {
    let mut bench = bench(60, vec![]);
    let response = bench.call(json!({"mode": "sleep", "times": 2_900})).await;
    assert_eq!(response.status, CallStatus::Success);
    assert_eq!(bench.told()[1..4], ["step Looking 1/2", "overrun 1000", "step Doubling 2/2"]);
}

#[tokio::test(start_paused = true)]
async fn at_three_times_its_budget_a_read_is_cancelled() {
    let mut bench = bench(60, vec![]);
    let started = tokio::time::Instant::now();
    let response = bench.call(json!({"mode": "hang"})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::ToolTimeout)));
    assert_eq!(started.elapsed().as_millis(), 3_000);
    assert_eq!(bench.told()[2..], ["overrun 1000", "error TOOL_TIMEOUT", "end false null"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_cancelled() {
    let mut bench = bench(60, vec![]);
    let call_id = bench.executor.new_call_id();
    let call = ToolCall { call_id: Some(call_id), ..ToolCall::new("probe", ToolInput::Json(json!({"mode": "hang"}))) };
    let running = tokio::spawn({
        let executor = bench.executor.clone();
        async move { executor.call(call).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(bench.executor.cancel(call_id));
    let response = running.await.unwrap();
    assert_eq!((response.call_id, code(&response)), (call_id, Some(ErrorCode::ToolCancelled)));
    assert!(!bench.executor.cancel(call_id));
    assert_eq!(bench.told()[2..], ["error TOOL_CANCELLED", "end false null"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_its_call() {
    let mut bench = bench(60, vec![]);
    let gone = tokio::time::timeout(Duration::from_millis(10), bench.call(json!({"mode": "hang"}))).await;
    assert!(gone.is_err());
    assert_eq!(bench.told()[2..], ["error TOOL_CANCELLED", "end false null"]);
}

#[derive(Debug)]
struct Gate;

impl Hook for Gate {
    fn before(&self, call: HookCall<'_>) -> Result<(), ToolError> {
        match call.params["times"].as_u64() {
            Some(13) => Err(ToolError::new(ErrorCode::Halted, "thirteen is not allowed")),
            Some(14) => panic!("fourteen"),
            _ => Ok(()),
        }
    }

    fn after(&self, _: HookCall<'_>, response: &ToolResponse) {
        assert_ne!(response.data.as_ref().map(|data| &data["doubled"]), Some(&json!(30)), "fifteen");
    }
}

#[tokio::test]
async fn hooks_may_block_and_their_panics_stop_nothing_else() {
    let bench = bench(60, vec![Arc::new(Gate)]);
    let response = bench.call(json!({"mode": "double", "times": 13})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Blocked, Some(ErrorCode::Halted)));
    let response = bench.call(json!({"mode": "double", "times": 14})).await;
    assert_eq!((response.status, code(&response)), (CallStatus::Blocked, Some(ErrorCode::ToolPanicked)));
    for times in [15, 16] {
        assert_eq!(bench.call(json!({"mode": "double", "times": times})).await.status, CallStatus::Success);
    }
}

#[tokio::test]
async fn a_key_runs_its_call_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        bardo_store::Store::open(bardo_store::StoreConfig::at(folder.path().join("bardo.db")), &[MIGRATIONS]).unwrap()
    };
    let call = |mode: &str, key: &str| ToolCall {
        idempotency_key: Some(key.to_owned()),
        ..ToolCall::new("probe", ToolInput::Json(json!({"mode": mode, "times": 4})))
    };
    let mut bench = bench_with(60, vec![], Some(open()));
    let first = bench.executor.call(call("double", "k1")).await;
    assert_eq!(first.status, CallStatus::Success);
    assert_eq!(bench.told().iter().filter(|told| told.starts_with("step")).count(), 2);
    assert_eq!(bench.executor.call(call("double", "k1")).await, first);
    assert_eq!(bench.told().iter().filter(|told| told.starts_with("step")).count(), 0, "it was not run again");

    let other = bench.executor.call(call("treble", "k1")).await;
    assert_eq!(code(&other), Some(ErrorCode::IdempotencyConflict));
    for _ in 0..2 {
        let failed = bench.executor.call(call("fail", "k2")).await;
        assert_eq!(code(&failed), Some(ErrorCode::TokenNotFound), "a failure gives its key back");
    }
    let bad = bench.executor.call(call("double", "k 3")).await;
    assert_eq!(code(&bad), Some(ErrorCode::ValidationFailed));

    // A later process on the same database. The call under the third key has signed something.
    drop(bench);
    let store = open();
    let bench = bench_with(60, vec![], Some(store.clone()));
    assert_eq!(bench.executor.call(call("double", "k1")).await, first);
    let third = bench.executor.call(call("double", "k3")).await;
    let signed = store.write(|tx| {
        Ok::<_, bardo_store::StoreError>(tx.execute("UPDATE engine_idempotency SET acting = 1 WHERE key = 'k3'", [])?)
    });
    assert_eq!(signed.await.unwrap(), 1);
    // A day later the first answer is deleted; the answer of the call that signed stays.
    bench.clock.0.fetch_add(24 * 3_600 * 1_000 + 1, Ordering::SeqCst);
    assert_ne!(bench.executor.call(call("double", "k1")).await.call_id, first.call_id);
    bench.clock.0.fetch_add(365 * 24 * 3_600 * 1_000, Ordering::SeqCst);
    assert_eq!(bench.executor.call(call("double", "k3")).await, third);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_use_is_reported_and_an_abandoned_one_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let config = bardo_store::StoreConfig::at(folder.path().join("bardo.db"));
    let bench = bench_with(60, vec![], Some(bardo_store::Store::open(config, &[MIGRATIONS]).unwrap()));
    let call = |mode: &str| ToolCall {
        idempotency_key: Some("k".to_owned()),
        ..ToolCall::new("probe", ToolInput::Json(json!({"mode": mode})))
    };
    // The future is polled until the tool hangs, then dropped with its key still claimed.
    let hanging = tokio::time::timeout(Duration::from_millis(500), bench.executor.call(call("hang"))).await;
    assert!(hanging.is_err());
    assert_eq!(code(&bench.executor.call(call("hang")).await), Some(ErrorCode::CallInProgress));
    bench.clock.0.fetch_add(3_001, Ordering::SeqCst);
    assert_eq!(code(&bench.executor.call(call("fail")).await), Some(ErrorCode::TokenNotFound));
}

/// Uses the real clock: a paused clock would run ahead of the database threads.
#[tokio::test]
async fn the_key_of_an_ended_process_is_free_and_that_of_a_running_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        bardo_store::Store::open(bardo_store::StoreConfig::at(folder.path().join("bardo.db")), &[MIGRATIONS]).unwrap()
    };
    let call = |mode: &str| ToolCall {
        idempotency_key: Some("k".to_owned()),
        ..ToolCall::new("probe", ToolInput::Json(json!({"mode": mode})))
    };
    let (first, second) = (bench_with(60, vec![], Some(open())), bench_with(60, vec![], Some(open())));
    // Long enough for the claim to reach the disk, even on a busy machine.
    let hanging = tokio::time::timeout(Duration::from_secs(2), first.executor.call(call("hang"))).await;
    assert!(hanging.is_err());
    assert_eq!(code(&second.executor.call(call("hang")).await), Some(ErrorCode::CallInProgress));
    // State after a kill: the key is claimed, nothing was signed, and the process is gone.
    drop(first);
    // The dropped call is aborted; its task releases the database when it is next polled.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let anew = tokio::time::timeout(Duration::from_millis(500), second.executor.call(call("hang"))).await;
    assert!(anew.is_err(), "it runs anew: {anew:?}");
}

#[tokio::test]
async fn a_key_without_a_database_is_refused() {
    let bench = bench(60, vec![]);
    let call = ToolCall {
        idempotency_key: Some("k".to_owned()),
        ..ToolCall::new("probe", ToolInput::Json(json!({"mode": "double"})))
    };
    assert_eq!(code(&bench.executor.call(call).await), Some(ErrorCode::StoreUnavailable));
}

#[test]
fn definitions_that_do_not_fit_are_refused() {
    assert_eq!(Catalog::new([&PROBE, &SWAPPER, &PROBE]).unwrap_err(), CatalogError::Duplicate("probe"));
    assert_eq!(Catalog::new([&UNNAMED]).unwrap_err(), CatalogError::Name("Get-Quote"));
    for (def, wanted) in [
        (&SILENT, "every guideline"),
        (&SUMMING, "no result field `trebled`; it has doubled, mode"),
        (&SHOWING, "no parameter `mood`; it has mode, pin, times"),
        (&LOOSE, "deny_unknown_fields"),
        (&MISFIT, "rejects its own example: VALIDATION_FAILED: parameter `mode`"),
    ] {
        let error = Catalog::new([def]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.iter().map(|entry| entry.def.meta.name).collect()
}

#[test]
fn selections_follow_profile_categories_and_overrides() {
    let all = Catalog::new([&PROBE, &SWAPPER, &VPIN, &STORE]).unwrap();
    let select = |selection: ToolSelection| all.select(&selection);
    let trader = ToolSelection { profile: Some(Profile::Trader), ..ToolSelection::default() };
    assert_eq!(names(&select(trader.clone()).unwrap()), ["probe", "quote"]);
    let by_category = ToolSelection { categories: vec![Category::Memory, Category::Data], ..ToolSelection::default() };
    assert_eq!(names(&select(by_category).unwrap()), ["probe", "recall"]);
    let overridden =
        ToolSelection { include: vec!["compute_vpin".into(), "quote".into()], exclude: vec!["probe".into()], ..trader };
    assert_eq!(names(&select(overridden).unwrap()), ["compute_vpin", "quote"]);
    assert!(select(ToolSelection::default()).unwrap().is_empty());

    let unknown = ToolSelection { exclude: vec!["compute_vpni".into()], ..ToolSelection::default() };
    let error = select(unknown).unwrap_err().to_string();
    assert_eq!(error, "unknown tool `compute_vpni`; did you mean `compute_vpin`?");
    let both =
        ToolSelection { include: vec!["probe".into()], exclude: vec!["probe".into()], ..ToolSelection::default() };
    assert!(matches!(select(both), Err(SelectionError::Both(_))));
}

#[test]
fn filters_combine() {
    let all = Catalog::new([&PROBE, &SWAPPER, &VPIN]).unwrap();
    let filter = |filter: ToolFilter| all.filter(filter).map(|entry| entry.def.meta.name).collect::<Vec<_>>();
    assert_eq!(filter(ToolFilter::default()), ["compute_vpin", "probe", "quote"]);
    assert_eq!(filter(ToolFilter { category: Some(Category::Trading), ..ToolFilter::default() }), ["quote"]);
    let nothing = ToolFilter {
        profile: Some(Profile::Fees),
        category: Some(Category::Trading),
        capability: Some(CapabilityTier::Read),
    };
    assert!(filter(nothing).is_empty());
}

#[test]
fn schemas_and_exports_say_what_the_types_say() {
    let catalog = Catalog::new([&PROBE]).unwrap();
    let entry = catalog.get("probe").unwrap();
    assert_eq!(entry.input_schema["required"], json!(["mode"]));
    assert_eq!(entry.input_schema["properties"]["mode"]["description"], "Action of the probe.");
    assert_eq!(entry.input_schema["additionalProperties"], false);
    assert_eq!(entry.output_schema["required"], json!(["mode", "doubled"]));
    let mcp = mcp_list(catalog.iter().map(|entry| &**entry));
    assert_eq!(
        mcp["tools"][0]["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true})
    );
    assert_eq!(mcp["tools"][0]["inputSchema"], entry.input_schema);
    assert_eq!(mcp["tools"][0]["_meta"]["bardo/risk_tier"], "Layer1");
    let openai = openai_list(catalog.iter().map(|entry| &**entry));
    assert_eq!(openai[0]["type"], "function");
    assert_eq!(openai[0]["function"]["parameters"], entry.input_schema);
}

#[test]
fn the_prompt_has_the_guideline_of_the_phase() {
    let catalog = Catalog::new([&PROBE]).unwrap();
    let advice = [
        (Phase::Thriving, GUIDELINES.thriving),
        (Phase::Cautious, GUIDELINES.cautious),
        (Phase::Defensive, GUIDELINES.declining),
        (Phase::Survival, GUIDELINES.declining),
        (Phase::Terminal, GUIDELINES.terminal),
    ];
    assert_eq!(advice.map(|(phase, _)| phase), Phase::ALL, "every phase has its advice");
    for (phase, words) in advice {
        assert_eq!(catalog.prompt(phase), format!("probe: Probes. {words}\n"), "{phase:?}");
    }
}

struct Recorder;

impl RecordTool for Recorder {
    const META: ToolMeta = {
        let mut meta = META;
        meta.name = "remember";
        meta.capability = CapabilityTier::Write;
        meta
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        Probe::example()
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        Probe::run(context, params).await
    }
}

struct Forgetter;

impl RecordTool for Forgetter {
    const META: ToolMeta = {
        let mut meta = Recorder::META;
        meta.name = "forget";
        meta
    };
    const ALWAYS_RUNS: bool = true;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        Probe::example()
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        Probe::run(context, params).await
    }
}

static RECORDER: ToolDef = ToolDef::record::<Recorder>();
static FORGETTER: ToolDef = ToolDef::record::<Forgetter>();

/// Without the operator's rules nothing is known about stops: only what takes authority back runs.
#[tokio::test(start_paused = true)]
async fn a_change_of_records_needs_the_operators_rules_and_ends_even_without_its_caller() {
    let mut bench = bench_of(&[&RECORDER, &FORGETTER]);
    let call = |tool: &str, params: Value| ToolCall::new(tool, ToolInput::Json(params));
    let double = || json!({"mode": "double", "times": 4});
    let refused = bench.executor.call(call("remember", double())).await;
    assert_eq!((refused.status, code(&refused)), (CallStatus::Error, Some(ErrorCode::StoreUnavailable)));
    let ran = bench.executor.call(call("forget", double())).await;
    assert_eq!((ran.status, &ran.data.unwrap()["doubled"]), (CallStatus::Success, &json!(8)));
    let rehearsed = ToolCall { dry_run: true, ..call("forget", double()) };
    assert_eq!(code(&bench.executor.call(rehearsed).await), Some(ErrorCode::ValidationFailed));
    // It is far over its budget, and is not cut off.
    bench.told();
    let slow = bench.executor.call(call("forget", json!({"mode": "sleep", "times": 60_000}))).await;
    assert_eq!(slow.status, CallStatus::Success);
    assert!(bench.told().iter().any(|event| event.starts_with("overrun")), "an overrun is reported");
}
