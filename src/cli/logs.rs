//! Logs go to a file, never to the terminal a person looks at.

use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use bardo_base::config::Config;
use bardo_base::private;

/// Files that are kept, one per day.
const DAYS_KEPT: usize = 7;
/// How the names of log files begin.
const PREFIX: &str = "bardo";

/// Starts logging to `bardo.DATE.log` in the log folder. What is logged is written as long as the guard lives.
///
/// # Errors
/// A filter that makes no sense. A folder that cannot be used is told on stderr and leaves the program without logs.
pub(super) fn start(config: &Config) -> Result<Option<WorkerGuard>, LogError> {
    let filter = EnvFilter::try_new(every_crate(&config.log.value))
        .map_err(|_| LogError { origin: config.log.origin.to_string() })?;
    let folder = config.log_dir();
    match file(&config.data_dir.value, &folder) {
        Ok(file) => {
            let (writer, guard) = tracing_appender::non_blocking(file);
            let subscriber =
                tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false).finish();
            // Set once per process; where it is set already, that one stays.
            let _ = tracing::subscriber::set_global_default(subscriber);
            Ok(Some(guard))
        }
        Err(reason) => {
            eprintln!("bardo: no logs, because {} cannot be used: {reason}", folder.display());
            Ok(None)
        }
    }
}

/// A filter in which `bardo` means all of this program: a target stands for every crate whose name begins with it, and
/// half of ours begin with `golem`.
fn every_crate(filter: &str) -> String {
    let both = |directive: &str| match directive.trim().strip_prefix("bardo") {
        Some(rest) if rest.is_empty() || rest.starts_with(['=', '[']) => format!("bardo{rest},golem{rest}"),
        _ => directive.to_owned(),
    };
    filter.split(',').map(both).collect::<Vec<_>>().join(",")
}

/// A log filter that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("log ({origin}): not a filter: write error, warn, info, debug or trace, or one such as bardo=debug")]
pub(super) struct LogError {
    origin: String,
}

fn file(data: &Path, folder: &Path) -> Result<tracing_appender::rolling::RollingFileAppender, String> {
    let narrowed =
        private::folder(data).and_then(|()| private::folder(folder)).and_then(|()| private::files(folder, PREFIX));
    narrowed.map_err(|error| error.to_string())?;
    tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix(PREFIX)
        .filename_suffix("log")
        .max_log_files(DAYS_KEPT)
        .build(folder)
        .map_err(|error| error.to_string())
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
