//! Tests of the fabric: whatever the receivers do, the journal is complete and a resync gives the true state.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::B256;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::journal::JournalFile;
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::id::{CallId, GolemId};
use crate::text::SafeText;

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now_millis(&self) -> u64 {
        1_700_000_000_000
    }
}

fn call(number: u64) -> CallId {
    format!("{number:026}").parse().unwrap()
}

fn start() -> EventKind {
    EventKind::ToolStart(ToolStart {
        tool_name: "uniswap_get_quote".into(),
        params: RedactedParams::new(&json!({"token_in": "WETH"}), &[]),
        params_hash: B256::ZERO,
        tick: None,
        facts: None,
    })
}

fn update(index: u32) -> EventKind {
    EventKind::ToolUpdate(ToolUpdate { step: SafeText::clean("Computing route", 80), index, of: 3 })
}

fn end() -> EventKind {
    EventKind::ToolEnd(ToolEnd { success: true, state: None, duration_ms: 3, result_summary: Value::Null, card: None })
}

/// State that a screen derives from events: per call, its progress.
#[derive(Debug, Clone, Default, PartialEq)]
struct Folded {
    last: u64,
    calls: BTreeMap<CallId, (u32, u32, u32)>,
}

impl Folded {
    fn fold(&mut self, event: &Event) {
        if event.seq <= self.last {
            return;
        }
        assert_eq!(event.seq, self.last + 1, "a hole in the sequence");
        self.last = event.seq;
        let Some(id) = event.call_id else { return };
        let (starts, updates, ends) = self.calls.entry(id).or_default();
        match &event.kind {
            EventKind::ToolStart(_) => *starts += 1,
            EventKind::ToolUpdate(payload) => *updates += payload.index,
            EventKind::ToolEnd(_) => *ends += 1,
            _ => {}
        }
    }

    /// Protocol of a receiver: on a gap, read the history; drop deliveries it covers.
    fn follow(&mut self, fabric: &Fabric, delivered: &[Arc<Event>]) {
        for event in delivered {
            if let EventKind::FabricGap(gap) = &event.kind {
                assert_eq!(gap.missed, event.seq + 1 - gap.first);
                let history = fabric.history(self.last).unwrap();
                assert!(history.complete);
                history.events.iter().for_each(|event| self.fold(event));
                assert_eq!(self.last, history.last);
            } else {
                self.fold(event);
            }
        }
    }
}

fn fold_journal(path: &Path) -> Folded {
    let mut folded = Folded::default();
    for event in read_journal(path).unwrap() {
        folded.fold(&event.unwrap());
    }
    folded
}

#[derive(Debug, Clone)]
enum Step {
    Emit(u64, u8),
    Drain(usize, usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u64..8, 0u8..3).prop_map(|(id, kind)| Step::Emit(id, kind)),
        2 => (0usize..3, 1usize..40).prop_map(|(who, limit)| Step::Drain(who, limit)),
        1 => (0usize..40).prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Receivers that drain occasionally, lag by any amount, never drain, or disappear.
    #[test]
    fn nothing_is_lost_whatever_the_receivers_do(steps in steps(), ring in 1usize..64, window in 1usize..64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let config = FabricConfig { ring, journal: Some(path.clone()), clock: Arc::new(Fixed) };
        let fabric = Fabric::new(config).unwrap();
        let golem = GolemId::operator();
        let mut receivers: Vec<_> = (0..3).map(|_| Some((fabric.subscribe(window), Folded::default()))).collect();
        let _stuck = fabric.subscribe(window);
        let mut truth = Folded::default();
        for step in steps {
            match step {
                Step::Emit(id, kind) => {
                    let kind = match kind { 0 => start(), 1 => update(id as u32 % 3 + 1), _ => end() };
                    let seq = fabric.emit(&golem, Some(call(id)), kind.clone());
                    truth.fold(&Event { seq, at: 0, golem_id: golem.clone(), call_id: Some(call(id)), kind });
                }
                Step::Drain(who, limit) => {
                    if let Some((receiver, folded)) = &mut receivers[who] {
                        let mut delivered = Vec::new();
                        receiver.try_receive(&mut delivered, limit);
                        folded.follow(&fabric, &delivered);
                    }
                }
                Step::Drop(who) => if let Some(receiver) = receivers.get_mut(who) { *receiver = None },
            }
        }
        for (receiver, folded) in receivers.iter_mut().flatten() {
            let mut delivered = Vec::new();
            while receiver.try_receive(&mut delivered, 7) {}
            folded.follow(&fabric, &delivered);
            prop_assert_eq!(&*folded, &truth);
        }
        drop(fabric);
        prop_assert_eq!(fold_journal(&path), truth);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_receivers_and_four_emitters_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let config = FabricConfig { ring: 512, journal: Some(path.clone()), clock: Arc::new(SystemClock) };
    let fabric = Fabric::new(config).unwrap();
    let receivers: Vec<_> = [1usize, 64, 512]
        .into_iter()
        .map(|window| {
            let (fabric, mut receiver) = (fabric.clone(), fabric.subscribe(window));
            tokio::spawn(async move {
                let mut folded = Folded::default();
                while folded.last < 20_000 {
                    let mut delivered = Vec::new();
                    assert!(receiver.receive(&mut delivered, 100).await);
                    folded.follow(&fabric, &delivered);
                }
                folded
            })
        })
        .collect();
    let emitters: Vec<_> = (0..4)
        .map(|id| {
            let fabric = fabric.clone();
            std::thread::spawn(move || {
                for number in 0..5_000 {
                    fabric.emit(&GolemId::operator(), Some(call(id)), update(number % 3 + 1));
                }
            })
        })
        .collect();
    for emitter in emitters {
        emitter.join().unwrap();
    }
    let mut states = Vec::new();
    for receiver in receivers {
        states.push(receiver.await.unwrap());
    }
    drop(fabric);
    let truth = fold_journal(&path);
    assert_eq!(truth.last, 20_000);
    assert!(states.iter().all(|state| *state == truth));
}

#[tokio::test]
async fn receivers_end_with_the_fabric_after_the_last_event() {
    let fabric = Fabric::in_memory(8, Arc::new(Fixed));
    let mut receiver = fabric.subscribe(8);
    fabric.emit(&GolemId::operator(), None, start());
    drop(fabric);
    let mut delivered = Vec::new();
    assert!(receiver.receive(&mut delivered, 8).await);
    assert!(!receiver.receive(&mut delivered, 8).await);
    assert_eq!(delivered.len(), 1);
}

#[test]
fn without_a_journal_a_long_gap_is_incomplete() {
    let fabric = Fabric::in_memory(4, Arc::new(Fixed));
    for _ in 0..10 {
        fabric.emit(&GolemId::operator(), None, start());
    }
    let history = fabric.history(0).unwrap();
    assert!(!history.complete);
    assert_eq!(history.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [7, 8, 9, 10]);
    assert!(fabric.history(6).unwrap().complete);
    assert_eq!(fabric.history(10).unwrap().events.len(), 0);
}

#[test]
fn an_event_has_its_payload_beside_its_kind() {
    let fabric = Fabric::in_memory(4, Arc::new(Fixed));
    let mut receiver = fabric.subscribe(4);
    fabric.emit(&GolemId::operator(), Some(call(7)), update(2));
    let mut delivered = Vec::new();
    receiver.try_receive(&mut delivered, 1);
    let json = serde_json::to_value(&*delivered[0]).unwrap();
    assert_eq!(
        json,
        json!({
            "seq": 1, "at": 1_700_000_000_000u64, "golem_id": "operator", "call_id": "00000000000000000000000007",
            "kind": "tool:update", "step": "Computing route", "index": 2, "of": 3,
        })
    );
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), *delivered[0]);
}

#[test]
fn a_flushed_journal_is_on_disk_and_private_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let config = FabricConfig { ring: 4, journal: Some(path.clone()), clock: Arc::new(Fixed) };
    let fabric = Fabric::new(config.clone()).unwrap();
    fabric.emit(&GolemId::operator(), None, start());
    fabric.flush().unwrap();
    assert_eq!(read_journal(&path).unwrap().count(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let refused = Fabric::new(config).unwrap_err().to_string();
    assert!(refused.contains("run.jsonl"), "{refused}");
}

#[test]
fn a_cut_last_line_is_left_out_and_a_spoilt_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let fabric = Fabric::new(FabricConfig { ring: 4, journal: Some(path.clone()), clock: Arc::new(Fixed) }).unwrap();
    fabric.emit(&GolemId::operator(), None, start());
    fabric.emit(&GolemId::operator(), None, end());
    drop(fabric);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let events: Vec<_> = read_journal(&path).unwrap().collect();
    assert!(matches!(&events[..], [Ok(event)] if event.seq == 1), "{events:?}");
    std::fs::write(&path, whole.replacen("tool:start", "tool:stork", 1)).unwrap();
    let events: Vec<_> = read_journal(&path).unwrap().collect();
    assert!(matches!(&events[..], [Err(JournalError::Line { line: 2, .. })]), "{events:?}");
}

#[test]
fn a_journal_names_its_version_and_one_of_a_later_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let fabric = Fabric::new(FabricConfig { ring: 4, journal: Some(path.clone()), clock: Arc::new(Fixed) }).unwrap();
    fabric.emit(&GolemId::operator(), None, start());
    drop(fabric);
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().next(), Some(r#"{"journal":6}"#));
    std::fs::write(&path, whole.replacen("\"journal\":6", "\"journal\":7", 1)).unwrap();
    let events: Vec<_> = read_journal(&path).unwrap().collect();
    assert!(matches!(&events[..], [Err(JournalError::Later { found: 7, .. })]), "{events:?}");
    // Before version 3 the first line is an event.
    std::fs::write(&path, whole.split_once('\n').unwrap().1).unwrap();
    let events: Vec<_> = read_journal(&path).unwrap().collect();
    assert!(matches!(&events[..], [Ok(event)] if event.seq == 1), "{events:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_stops_no_event() {
    let path = Path::new("/dev/full");
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let fabric = Fabric::journaled(1_000, Arc::new(Fixed), JournalFile::over(path, file)).unwrap();
    let mut receiver = fabric.subscribe(1_000);
    fabric.emit(&GolemId::operator(), None, start());
    let error = fabric.flush().unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("events from 1 on"), "{error}");
    assert!(fabric.fault().is_some());
    fabric.emit(&GolemId::operator(), None, end());
    let mut delivered = Vec::new();
    while receiver.try_receive(&mut delivered, 10) {}
    assert!(
        delivered.iter().any(|event| matches!(&event.kind, EventKind::FabricFault(fault) if fault.first_lost == 1))
    );
    assert!(matches!(delivered.last().unwrap().kind, EventKind::ToolEnd(_)));
}

#[test]
fn a_journal_ends_at_its_size_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    let fabric = Fabric::journaled(1_000, Arc::new(Fixed), JournalFile::over(&path, file).at_most(2_000)).unwrap();
    for _ in 0..100 {
        fabric.emit(&GolemId::operator(), None, start());
        // One batch each, so that the size limit falls between two of them. The error is expected and checked below.
        let _ended = fabric.flush();
    }
    let fault = fabric.fault().unwrap().to_string();
    assert!(fault.contains("the maximum"), "{fault}");
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length > 1_000 && length <= 2_000, "{length}");
    assert!(read_journal(&path).unwrap().all(|event| event.is_ok()), "what it has is whole");
}

#[test]
fn a_call_end_of_an_old_journal_has_no_outcome() {
    let old = json!({ "success": true, "duration_ms": 3, "result_summary": null });
    let read: ToolEnd = serde_json::from_value(old).unwrap();
    assert_eq!(read.state, None);
    let said = ToolEnd { state: Some(EndState::Placed), ..read };
    let told = serde_json::to_value(&said).unwrap();
    assert_eq!(told["state"], "placed");
    assert_eq!(serde_json::from_value::<ToolEnd>(told).unwrap(), said);
}

#[test]
fn a_changed_policy_of_an_earlier_version_is_read_field_by_field() {
    let line = serde_json::json!("max_daily_spend_usd: 5000 → 8000");
    let change: PolicyChange = serde_json::from_value(line).unwrap();
    assert_eq!(
        [change.field.as_str(), change.from.as_str(), change.to.as_str()],
        ["max_daily_spend_usd", "5000", "8000"]
    );
    let again: PolicyChange = serde_json::from_value(serde_json::to_value(&change).unwrap()).unwrap();
    assert_eq!(again, change);
}
