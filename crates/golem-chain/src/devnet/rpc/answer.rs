//! Kinds of answers: immediate, from another thread, or in parts between other commands.

use super::super::handle::DevnetThread;
use super::RpcResult;
use super::error::RpcError;

/// Work that does not need the chain.
pub(in super::super) type Work = Box<dyn FnOnce() -> RpcResult + Send>;

/// More work on the chain's thread.
pub(in super::super) type Part = Box<dyn FnOnce(&mut DevnetThread) -> Answer + Send>;

/// An answer, or the remaining work for it.
pub(in super::super) enum Answer {
    /// The answer is complete.
    Now(RpcResult),
    /// Long work on another thread, so that it does not delay blocks.
    Elsewhere(Work),
    /// More work on the chain's thread, after waiting commands.
    Later(Part),
}

impl Answer {
    pub(super) fn now(result: RpcResult) -> Self {
        Self::Now(result)
    }

    pub(super) fn elsewhere(work: impl FnOnce() -> RpcResult + Send + 'static) -> Self {
        Self::Elsewhere(Box::new(work))
    }

    pub(super) fn later(part: impl FnOnce(&mut DevnetThread) -> Self + Send + 'static) -> Self {
        Self::Later(Box::new(part))
    }
}

impl From<Result<Self, RpcError>> for Answer {
    fn from(result: Result<Self, RpcError>) -> Self {
        result.unwrap_or_else(|error| Self::Now(Err(error)))
    }
}
