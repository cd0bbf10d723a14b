//! Three ways to an answer: at once on the chain's thread, on another thread, or in parts that let others come between.

use super::super::handle::Engine;
use super::RpcResult;
use super::error::RpcError;

/// Work that needs the chain no more.
pub(in super::super) type Work = Box<dyn FnOnce() -> RpcResult + Send>;

/// More work on the chain's thread.
pub(in super::super) type Part = Box<dyn FnOnce(&mut Engine) -> Answer + Send>;

/// An answer, or what it takes to get it.
pub(in super::super) enum Answer {
    /// It is there.
    Now(RpcResult),
    /// By work on another thread: what takes long must not keep the chain from its blocks.
    Elsewhere(Work),
    /// By more work on the chain's thread, once those who wait have had their turn.
    Later(Part),
}

impl Answer {
    pub(super) fn now(result: RpcResult) -> Self {
        Self::Now(result)
    }

    pub(super) fn elsewhere(work: impl FnOnce() -> RpcResult + Send + 'static) -> Self {
        Self::Elsewhere(Box::new(work))
    }

    pub(super) fn later(part: impl FnOnce(&mut Engine) -> Self + Send + 'static) -> Self {
        Self::Later(Box::new(part))
    }
}

impl From<Result<Self, RpcError>> for Answer {
    fn from(result: Result<Self, RpcError>) -> Self {
        result.unwrap_or_else(|error| Self::Now(Err(error)))
    }
}
