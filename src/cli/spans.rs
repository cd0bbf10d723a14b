//! Spans of calls, stored as JSON lines next to the log, whatever its format and filter. `bardo log --call` reads them.
//!
//! Only the fields in [`FIELDS`] are written: ids and words of the program itself, never text from outside.

use std::fmt::Debug;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use bardo_base::format::utc;
use bardo_base::id::CallId;
use bardo_base::regular_file;
use bardo_base::text::SafeText;

/// Prefix of the span files' names.
pub(super) const PREFIX: &str = "spans";
/// Suffix of the span files' names.
pub(super) const SUFFIX: &str = "jsonl";
/// Fields of a span that are written.
const FIELDS: [&str; 6] = ["call_id", "permit_id", "chain_id", "tx_hash", "tool", "status"];
/// Maximum length of a line to read, in bytes.
const MOST_LINE: usize = 4_096;
/// Length limit of a displayed value, in characters; longer than a hash.
const MOST_VALUE: usize = 80;

/// Completed step of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpanRecord {
    /// Name of the step.
    pub span: String,
    /// Tool call that the step belongs to.
    pub call_id: CallId,
    /// Start of the step, in microseconds since the Unix epoch.
    pub began_us: u64,
    /// Duration of the step, in microseconds.
    pub duration_us: u64,
    /// Number of enclosing steps.
    pub depth: usize,
    /// Further fields: those of [`FIELDS`] except the call's id.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

/// Layer that writes every span of a call at its end.
pub(super) struct SpanLayer {
    out: NonBlocking,
}

/// Span in progress.
struct OpenSpan {
    at: SystemTime,
    began: Instant,
    fields: Fields,
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        if FIELDS.contains(&field.name()) {
            self.0.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.keep(field, format!("{value:?}").into());
    }
}

/// Returns true for a span of this program's own crates.
fn is_own(metadata: &Metadata<'_>) -> bool {
    let own = ["bardo", "golem"].iter().any(|name| metadata.target().starts_with(name));
    metadata.is_span() && own && *metadata.level() <= Level::DEBUG
}

impl SpanLayer {
    /// Creates the layer with this writer.
    pub fn writing<S>(out: NonBlocking) -> impl Layer<S> + Send + Sync
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let own: FilterFn = filter_fn(is_own as fn(&Metadata<'_>) -> bool).with_max_level_hint(LevelFilter::DEBUG);
        Self { out }.with_filter(own)
    }
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(OpenSpan { at: SystemTime::now(), began: Instant::now(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        // The span's own call id, or else that of the nearest enclosing span. Spans outside of calls are not written.
        let call_id = span.scope().find_map(|around| {
            let extensions = around.extensions();
            extensions.get::<OpenSpan>()?.fields.0.get("call_id")?.as_str()?.parse().ok()
        });
        let depth = span.scope().skip(1).count();
        let (Some(call_id), Some(open)) = (call_id, span.extensions_mut().remove::<OpenSpan>()) else { return };
        let mut fields = open.fields.0;
        fields.remove("call_id");
        let micros = |time: u128| u64::try_from(time).unwrap_or(u64::MAX);
        let record = SpanRecord {
            span: span.name().to_owned(),
            call_id,
            began_us: micros(open.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()),
            duration_us: micros(open.began.elapsed().as_micros()),
            depth,
            fields,
        };
        if let Ok(mut line) = serde_json::to_vec(&record) {
            line.push(b'\n');
            // If the disk is full, the span is lost; no action waits for it.
            let _written = self.out.clone().write_all(&line);
        }
    }
}

/// Returns the spans of one call in order of their start; of steps that started together, the outer one comes first.
/// Invalid lines are skipped, and a missing folder has no spans.
///
/// # Errors
/// The error of the operating system.
pub(super) fn of_call(folder: &Path, call: CallId) -> io::Result<Vec<SpanRecord>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(PREFIX) && name.ends_with(SUFFIX) && entry.file_type()?.is_file()) {
            continue;
        }
        for line in BufReader::new(regular_file::open(&entry.path())?).split(b'\n') {
            let line = line?;
            if line.len() > MOST_LINE {
                continue;
            }
            found.extend(serde_json::from_slice(&line).ok().filter(|record: &SpanRecord| record.call_id == call));
        }
    }
    found.sort_by_key(|record| (record.began_us, record.depth));
    Ok(found)
}

/// Formats a span as a line of text.
pub(super) fn line(record: &SpanRecord) -> String {
    // The span comes from a file that others may have written to, and goes to a terminal.
    let clean = |text: &str| SafeText::clean(text, MOST_VALUE).to_string();
    let fields = record.fields.iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("  {}={}", clean(name), clean(&value))
    });
    let name = format!("{}{}", "  ".repeat(record.depth.min(8)), clean(&record.span));
    let (millis, rest) = (record.duration_us / 1_000, record.duration_us % 1_000 / 100);
    let fields: String = fields.collect();
    format!("{}  {name:18}  {millis:>6}.{rest} ms{fields}\n", utc(record.began_us / 1_000))
}

#[cfg(test)]
mod tests {
    use tracing::{debug_span, info, info_span};
    use tracing_subscriber::{Registry, layer::SubscriberExt as _};

    use super::*;

    #[test]
    fn only_known_fields_of_spans_of_calls_are_kept_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("spans.2026-11-24.jsonl")).unwrap();
        let (out, guard) = tracing_appender::non_blocking(file);
        let call_id = CallId::new(1_700_000_000_000);
        tracing::subscriber::with_default(Registry::default().with(SpanLayer::writing(out)), || {
            let call = info_span!("call", %call_id, tool = "token_approve", password = "hunter2", status = tracing::field::Empty);
            call.in_scope(|| {
                debug_span!("sign", chain_id = 1_u64, key = "hunter2").in_scope(|| info!("hunter2"));
                let other = CallId::new(1_700_000_000_001);
                drop(debug_span!(parent: None, "follow", call_id = %other));
            });
            call.record("status", "success");
            drop(call);
            drop(debug_span!("of no call"));
        });
        drop(guard);
        let written = std::fs::read_to_string(folder.path().join("spans.2026-11-24.jsonl")).unwrap();
        assert!(!written.contains("hunter2") && !written.contains("of no call"), "{written}");
        assert_eq!(written.lines().count(), 3, "{written}");
        let read = of_call(folder.path(), call_id).unwrap();
        let told: Vec<_> =
            read.iter().map(|one| (one.span.as_str(), one.depth, Value::from(one.fields.clone()))).collect();
        let fields = |value: Value| value;
        assert_eq!(
            told,
            [
                ("call", 0, fields(serde_json::json!({"tool": "token_approve", "status": "success"}))),
                ("sign", 1, fields(serde_json::json!({"chain_id": 1}))),
            ]
        );
        assert!(of_call(&folder.path().join("none"), call_id).unwrap().is_empty());
    }

    #[test]
    fn a_span_is_a_line_with_its_duration_and_without_controls() {
        let record = SpanRecord {
            span: "sign\u{1b}[2J".to_owned(),
            call_id: CallId::new(0),
            began_us: 951_782_400_000_000,
            duration_us: 12_345,
            depth: 1,
            fields: Map::from_iter([("chain_id".to_owned(), Value::from(8453))]),
        };
        let told = line(&record);
        assert!(told.starts_with("2000-02-29 00:00:00Z    sign"), "{told:?}");
        assert!(told.ends_with("    12.3 ms  chain_id=8453\n"), "{told:?}");
        assert!(!told.contains('\u{1b}'), "{told:?}");
    }
}
