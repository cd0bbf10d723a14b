//! Wires what the rooms below offer into something that runs: a network into the world that tools see, the data folder
//! that belongs to it, what writes go through, and all of it into a session that a console watches and steers. What is
//! allowed is decided below, in `safety`.
//!
//! | file | holds |
//! |---|---|
//! | `world`, `orders`, `quotes` | connected chains, their order and relayer services, and who quotes, for the tools |
//! | `account`, `acting`, `policy` | whose hands act, what their writes go through, under which policy |
//! | `data` | the data folder, and which database belongs to which network |
//! | `session`, `actor` | one running network with whoever lives in it |
//! | `questions` | what waits for the operator, here and in other programs on the same ledger |
//! | `allowances`, `reconcile` | what others may take; an account that something else has used |
//! | `policy_cage` | an account's rules in PolicyCage, compared with the policy and changed |
//! | `market` | prices and pools as the Network screen shows them |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

pub mod account;
mod acting;
pub mod actor;
pub mod allowances;
pub mod data;
mod depth;
pub mod market;
mod orders;
pub mod policy;
pub mod policy_cage;
pub mod questions;
pub mod quotes;
pub mod reauthentication;
pub mod reconcile;
pub mod session;
mod tool_info;
mod world;

use std::path::PathBuf;

use bardo_base::config::Config;
use golem::archetype::{ArchetypeError, Archetypes};
use golem_tools::engine::Catalog;

pub use acting::{Hands, acting, rules};
pub use orders::{SettlingService, auctions, orders, settling_services};
pub use tool_info::tool_info;
pub use world::{OpenError, OpenWorld, open, open_telling};

/// All roles, built in and of the operator's own, held against the rules of delegation and the tools there are.
///
/// # Errors
/// [`ArchetypeError::Unreadable`] for the folder. What is wrong with single roles is in [`Archetypes::broken`], drawn where
/// it is a path from role to role.
pub fn roles(config: &Config, catalog: &Catalog) -> Result<Archetypes, ArchetypeError> {
    Ok(Archetypes::load(Some(&archetype_folder(config)))?.with_tools_of(catalog))
}

/// Where archetypes of the operator's own are: beside the configuration.
pub fn archetype_folder(config: &Config) -> PathBuf {
    config.file.with_file_name("archetypes")
}
