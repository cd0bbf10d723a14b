//! Log files. Logs never go to the terminal.

use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::RollingFileAppender;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use super::spans::{self, SpanLayer};
use bardo_base::config::{Config, LogFormat};
use bardo_base::private;

/// Number of files of each kind to keep, one per day.
const DAYS_KEPT: usize = 7;
/// Prefix of the log files' names.
const PREFIX: &str = "bardo";

/// Guards of the background writers, which flush the log and the spans on drop.
pub(super) struct LogGuards {
    _log: WorkerGuard,
    _spans: WorkerGuard,
}

/// Starts logging to `bardo.DATE.log` in the log folder, and writing spans to `spans.DATE.jsonl` next to it. If the
/// folder cannot be used, a message goes to stderr and the process continues without logs.
///
/// # Errors
/// [`LogError::Filter`] for an invalid filter.
pub(super) fn start(config: &Config) -> Result<Option<LogGuards>, LogError> {
    let filter = EnvFilter::try_new(every_crate(&config.log.value))
        .map_err(|_| LogError::Filter { origin: config.log.origin.to_string() })?;
    let folder = config.log_dir();
    match files(&config.data_dir.value, &folder) {
        Ok((log, spans)) => {
            let (log, log_guard) = tracing_appender::non_blocking(log);
            let (spans, spans_guard) = tracing_appender::non_blocking(spans);
            // The end of a span is a line with its duration: of a call at level `info`, of each step at `debug`.
            let lines =
                tracing_subscriber::fmt::layer().with_writer(log).with_ansi(false).with_span_events(FmtSpan::CLOSE);
            let lines = match config.log_format.value {
                LogFormat::Text => lines.boxed(),
                LogFormat::Json => lines.json().boxed(),
            };
            let subscriber = Registry::default().with(lines.with_filter(filter)).with(SpanLayer::writing(spans));
            // A subscriber that was set earlier in this process stays in place.
            let _ = tracing::subscriber::set_global_default(subscriber);
            Ok(Some(LogGuards { _log: log_guard, _spans: spans_guard }))
        }
        Err(error) => {
            eprintln!("bardo: logging is off because {} cannot be used: {error}", folder.display());
            Ok(None)
        }
    }
}

/// Expands `bardo` in a filter to all crates of this program. A target matches by prefix, and half of our crates' names
/// begin with `golem`.
fn every_crate(filter: &str) -> String {
    let both = |directive: &str| match directive.trim().strip_prefix("bardo") {
        Some(rest) if rest.is_empty() || rest.starts_with(['=', '[']) => format!("bardo{rest},golem{rest}"),
        _ => directive.to_owned(),
    };
    filter.split(',').map(both).collect::<Vec<_>>().join(",")
}

/// Error when starting the logs.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    /// The log filter is invalid.
    #[error(
        "log ({origin}): not a valid filter; use error, warn, info, debug or trace, or a filter such as bardo=debug"
    )]
    Filter {
        /// Source of the setting: flag, variable or file.
        origin: String,
    },
    /// The folder cannot be created, or others can access it.
    #[error(transparent)]
    Folder(#[from] std::io::Error),
    /// A log file cannot be opened.
    #[error(transparent)]
    File(#[from] tracing_appender::rolling::InitError),
}

/// Opens today's log file and span file.
fn files(data: &Path, folder: &Path) -> Result<(RollingFileAppender, RollingFileAppender), LogError> {
    private::folder(data)?;
    private::folder(folder)?;
    let open = |prefix: &str, suffix: &str| {
        private::files(folder, prefix)?;
        let daily = RollingFileAppender::builder().rotation(tracing_appender::rolling::Rotation::DAILY);
        let named = daily.filename_prefix(prefix).filename_suffix(suffix).max_log_files(DAYS_KEPT);
        Ok::<_, LogError>(named.build(folder)?)
    };
    Ok((open(PREFIX, "log")?, open(spans::PREFIX, spans::SUFFIX)?))
}

#[cfg(test)]
mod tests {
    use super::every_crate;

    #[test]
    fn bardo_in_a_filter_means_every_crate() {
        assert_eq!(every_crate("bardo=debug"), "bardo=debug,golem=debug");
        assert_eq!(every_crate("warn, bardo=trace"), "warn,bardo=trace,golem=trace");
        assert_eq!(every_crate("info"), "info");
        assert_eq!(every_crate("bardo_console=debug"), "bardo_console=debug");
    }
}
