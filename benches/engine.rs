//! Cost of a tool call without the tool itself (goal: under 20 µs), and of the catalog with its exports.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bardo::base::clock::SystemClock;
use bardo::base::error::ToolError;
use bardo::base::id::GolemId;
use bardo::base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo::engine::{
    CallContext, Catalog, Executor, ExecutorConfig, ReadTool, ToolCall, ToolDef, ToolEnvironment, ToolInput, ToolReply,
    mcp_list, openai_list,
};
use bardo::fabric::Fabric;
use bardo::tools::ALL_TOOL_DEFS;
use criterion::{Criterion, criterion_group, criterion_main};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Parameters of a quote.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Params {
    token_in: String,
    token_out: String,
    amount: String,
    chain: String,
}

struct Nothing;

impl ReadTool for Nothing {
    const META: ToolMeta = ToolMeta {
        name: "nothing",
        description: "Answers with what it was asked.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Answering"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Answers.",
        prompt_guidelines: Guidelines {
            thriving: "Any time.",
            cautious: "Any time.",
            declining: "Any time.",
            terminal: "Any time.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["amount"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Params;

    fn example() -> Value {
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.5", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Params>, ToolError> {
        context.step("Answering");
        Ok(ToolReply::new(params, "As asked."))
    }
}

static NOTHING: ToolDef = ToolDef::read::<Nothing>();

fn engine(criterion: &mut Criterion) {
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).expect("a runtime");
    let clock = Arc::new(SystemClock);
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new([&NOTHING]).expect("a catalog"),
        world: Arc::new(ToolEnvironment::new(clock.clone(), None, Vec::new(), Vec::new())),
        fabric: Fabric::in_memory(1 << 12, clock),
        golem_id: GolemId::operator(),
        calls_per_minute: u32::MAX,
        hooks: Vec::new(),
        store: None,
        acting: None,
    });
    let text = Nothing::example().to_string();
    // From a task of the runtime, like calls of a Golem or the console.
    criterion.bench_function("a call without the tool", |bencher| {
        bencher.iter_custom(|rounds| {
            let (executor, text) = (executor.clone(), text.clone());
            let calling = async move {
                let began = Instant::now();
                for _ in 0..rounds {
                    black_box(executor.call(ToolCall::new("nothing", ToolInput::Text(text.clone()))).await);
                }
                began.elapsed()
            };
            runtime.block_on(runtime.spawn(calling)).expect("the calls")
        });
    });
    // From a thread outside the runtime, like `bardo call`, which adds two thread wake-ups.
    criterion.bench_function("the same from a thread of its own", |bencher| {
        bencher.iter(|| runtime.block_on(executor.call(ToolCall::new("nothing", ToolInput::Text(text.clone())))));
    });
    criterion.bench_function("the catalog, checked", |bencher| {
        bencher.iter(|| Catalog::new(ALL_TOOL_DEFS.iter().copied()).expect("a catalog"));
    });
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).expect("a catalog");
    criterion.bench_function("the catalog as MCP and OpenAI text", |bencher| {
        bencher.iter(|| {
            let entries = || catalog.iter().map(|entry| &**entry);
            (mcp_list(entries()).to_string(), openai_list(entries()).to_string())
        });
    });
}

criterion_group!(benches, engine);
criterion_main!(benches);
