//! Sources of a console's news: functions that open a [`SessionHandle`] after the first frame.

use std::path::PathBuf;

use bardo_base::fabric::{JournalError, read_journal};
use bardo_base::text::SafeText;
use bardo_session::handle::{SessionHandle, SessionNews};
use bardo_session::market::MarketUpdate;
use bardo_session::replay;

/// Function that opens a session. It is called once, inside the runtime and after the first frame, and must return at
/// once.
pub type Source = Box<dyn FnOnce() -> SessionHandle + Send>;

/// Source that plays a recorded run. Reads the whole journal first, so that a broken file is reported before the
/// console opens.
///
/// # Errors
/// [`JournalError`] if the file cannot be read or an event is invalid.
pub fn recording(path: PathBuf, speed_percent: u32) -> Result<Source, JournalError> {
    // Read before the terminal is taken, so that an error can be printed.
    for event in read_journal(&path)? {
        event?;
    }
    Ok(Box::new(move || {
        replay::open(&path, speed_percent).unwrap_or_else(|error| {
            let (handle, end) = SessionHandle::pair();
            let message = SafeText::clean(&error.to_string(), 300);
            // A new channel has room for the first message.
            let _told = end.news.try_send(SessionNews::Market(MarketUpdate::Fault { chain: None, message }));
            handle
        })
    }))
}

#[cfg(test)]
mod tests;
