//! The way from a proposal to a settled transaction, and the only maker of a [`Capability`].

mod capability;

pub use capability::{Action, Capability, ToSign, Transaction};
