//! Where a console's news comes from: whatever opens a [`Handle`] when it is asked to, after the first frame.

use std::path::PathBuf;

use bardo_base::fabric::{JournalError, read_journal};
use bardo_base::text::SafeText;
use bardo_session::handle::{Handle, News};
use bardo_session::market::Update;
use bardo_session::replay;

/// Opens a session. Called once, from inside the runtime, after the first frame; must return at once.
pub type Source = Box<dyn FnOnce() -> Handle + Send>;

/// A recorded run. Answers why it cannot be played before the console opens.
///
/// # Errors
/// [`JournalError`] where the file cannot be read.
pub fn recording(path: PathBuf, speed_percent: u32) -> Result<Source, JournalError> {
    // Read once before the terminal is taken, so that a broken file is an error in words.
    for event in read_journal(&path)? {
        event?;
    }
    Ok(Box::new(move || {
        replay::open(&path, speed_percent).unwrap_or_else(|error| {
            let (handle, end) = Handle::pair();
            let message = SafeText::clean(&error.to_string(), 300);
            // There is room for the first word of a session.
            let _told = end.news.try_send(News::Market(Update::Fault { chain: None, message }));
            handle
        })
    }))
}

#[cfg(test)]
mod tests;
