//! Approval requests for the operator: their view models, and their answers.
//!
//! A request about an action mirrors the one on the approval queue, which alone decides whether an answer counts.

pub mod answering;
pub mod second;
pub mod shared;
mod view_model;

use bardo_session::questions::{Question, RequestSubject};

pub use view_model::{ListedAddresses, RequestContext, view_model};

/// True if the displayed parts of the signed bytes are those that the hash binds, recomputed here.
pub fn is_bound(question: &Question) -> bool {
    match &question.about {
        RequestSubject::Action(action) => view_model::is_bound(&question.title, action),
        RequestSubject::Policy(_)
        | RequestSubject::Lower { .. }
        | RequestSubject::LeavePaper
        | RequestSubject::ResetBreaker { .. }
        | RequestSubject::SellHoldings { .. } => false,
    }
}
