//! What waits for the operator: questions made from the approval queue, and answered there.
//!
//! A question about an action mirrors the one on the approval queue, which alone decides whether an answer counts.

pub mod answering;
mod mirror;
pub mod shared;

use bardo_session::questions::{About, Question};

pub use mirror::{Listed, Told, mirror};

/// Whether everything that it shows of the signed bytes is what its hash binds, recomputed here.
pub fn is_bound(question: &Question) -> bool {
    match &question.about {
        About::Action(action) => mirror::is_bound(&question.title, action),
        About::Policy(_)
        | About::Lower { .. }
        | About::LeavePaper
        | About::ResetBreaker { .. }
        | About::SellHoldings => false,
    }
}
