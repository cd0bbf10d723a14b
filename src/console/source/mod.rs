//! Where a console's news comes from: whatever opens a [`Handle`] when it is asked to, after the first frame.

use crate::base::config::Config;
use crate::runtime::handle::Handle;
use crate::runtime::session::{Session, SessionOptions};

/// Opens a session. Called once, from inside the runtime, after the first frame; must return at once.
pub type Source = Box<dyn FnOnce() -> Handle + Send>;

/// A session in this process, on the network that `config` asks for.
pub fn session(config: Config, options: SessionOptions) -> Source {
    Box::new(move || Session::open(config, options))
}
