//! Approval requests for the operator: their view models, and their answers.
//!
//! A request about an action mirrors the one on the approval queue, which alone decides whether an answer counts.

pub mod answering;
pub mod shared;
mod view_model;

use bardo_session::questions::{About, Question};

pub use view_model::{Listed, RequestContext, view_model};

/// True if the displayed parts of the signed bytes are those that the hash binds, recomputed here.
pub fn is_bound(question: &Question) -> bool {
    match &question.about {
        About::Action(action) => view_model::is_bound(&question.title, action),
        About::Policy(_)
        | About::Lower { .. }
        | About::LeavePaper
        | About::ResetBreaker { .. }
        | About::SellHoldings => false,
    }
}
