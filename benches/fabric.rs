//! Events per second through the fabric to three receivers and the journal. Goal: 1,000,000.

use std::sync::Arc;

use alloy::primitives::B256;
use bardo::base::clock::SystemClock;
use bardo::base::id::{CallId, GolemId};
use bardo::base::text::SafeText;
use bardo::fabric::{EventKind, Fabric, FabricConfig, RedactedParams, ToolEnd, ToolStart, ToolUpdate};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;

const EVENTS: u64 = 200_000;

/// Events of one quote: a start, three steps, an end.
fn quote() -> Vec<EventKind> {
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.5", "chain": "ethereum"});
    let step =
        |step: &'static str, index| EventKind::ToolUpdate(ToolUpdate { step: SafeText::clean(step, 80), index, of: 3 });
    vec![
        EventKind::ToolStart(ToolStart {
            tool_name: "uniswap_get_quote".into(),
            params: RedactedParams::new(&params, &[]),
            params_hash: B256::repeat_byte(7),
            tick: None,
            facts: None,
        }),
        step("Resolving tokens", 1),
        step("Computing route", 2),
        step("Estimating gas", 3),
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 3,
            result_summary: json!({"amount_out": "5093.21", "route_type": "CLASSIC", "price_impact_pct": "0.02"}),
            card: None,
        }),
    ]
}

/// All events of a measurement, created before it starts.
fn events() -> Vec<EventKind> {
    quote().into_iter().cycle().take(EVENTS as usize).collect()
}

fn run(folder: &std::path::Path, events: Vec<EventKind>) {
    let path = folder.join(format!("{:016x}.jsonl", rand::random::<u64>()));
    let config = FabricConfig { ring: 1 << 16, journal: Some(path.clone()), clock: Arc::new(SystemClock) };
    let fabric = Fabric::new(config).expect("the journal opens");
    let receivers: Vec<_> = (0..3)
        .map(|_| {
            let (fabric, mut receiver) = (fabric.clone(), fabric.subscribe(1 << 16));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                runtime.block_on(async move {
                    let mut last = 0;
                    let mut delivered = Vec::new();
                    while last < EVENTS {
                        delivered.clear();
                        receiver.receive(&mut delivered, 1_024).await;
                        for event in &delivered {
                            if matches!(event.kind, EventKind::FabricGap(_)) {
                                last = fabric.history(last).expect("the history").last;
                            } else if event.seq > last {
                                assert_eq!(event.seq, last + 1);
                                last = event.seq;
                            }
                        }
                    }
                });
            })
        })
        .collect();
    let golem = GolemId::operator();
    let call_id = CallId::new(1);
    for kind in events {
        fabric.emit(&golem, Some(call_id), kind);
    }
    for receiver in receivers {
        receiver.join().expect("a receiver ends");
    }
    fabric.flush().expect("the journal is on disk");
    drop(fabric);
    std::fs::remove_file(path).expect("the journal can be removed");
}

fn fabric(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = criterion.benchmark_group("fabric");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    group.bench_function("three receivers and the journal, flushed", |bencher| {
        bencher.iter_batched(events, |events| run(folder.path(), events), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, fabric);
criterion_main!(benches);
