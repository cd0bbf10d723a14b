//! The seam between the page and whatever feeds it: a source sends plain updates, and stops when nobody listens.

mod activity;
mod arithmetic;
mod devnet;
mod reader;

use tokio::sync::mpsc;

pub use devnet::DevnetSource;

use super::state::model::Update;

/// Updates on their way to the state. A full channel makes the source wait: the page sees every one, in order.
pub type Updates = mpsc::Sender<Update>;

/// Updates that may wait; a source is a few blocks ahead at most.
pub const UPDATES_WAITING: usize = 64;

/// Something that knows a network and tells the page of it.
pub trait StatusSource: Send + 'static {
    /// Starts telling. Called once, from inside the runtime, after the first frame; must return at once and do its
    /// work in tasks or threads of its own, which end when the channel closes.
    fn start(self: Box<Self>, updates: Updates);
}

#[cfg(test)]
mod tests;
