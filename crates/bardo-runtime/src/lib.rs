//! Assembles the lower crates into a running system: connected networks, their data directory, the pipeline for writes,
//! and a session for the console. Permissions are decided in the safety crate.
//!
//! | module | contents |
//! |---|---|
//! | `environment`, `orders`, `quotes` | connected chains, their order and relayer services, and the quote source |
//! | `faucet` | faucet of the devnet in this process |
//! | `depth` | settings of a single chain, and the confirmations it needs |
//! | `account`, `signing_context`, `policy` | signing account, its pipeline, and its policy |
//! | `session_keyring` | the same session keys as tools reach them |
//! | `session_keys` | session keys of the data folder: drafted, granted, found and revoked |
//! | `reauthentication` | password check before a restriction is loosened |
//! | `backup` | backups of the data directory, and their restoration |
//! | `data` | the data directory, and the database of each network |
//! | `session`, `actor` | a running network and the actor in it |
//! | `questions` | approval requests of this process and of other processes on the same ledger |
//! | `allowances`, `reconcile` | allowances of an account; accounts that were used outside the ledger |
//! | `schedules`, `deposits` | schedules of swaps and bridge deposits as screens show them |
//! | `rehearsal` | a local chain that continues from a block of a live network |
//! | `rehearsed` | records of rehearsed writes, to propose them on the live network |
//! | `policy_cage` | an account's rules in PolicyCage, compared with the policy and changed |
//! | `market` | prices and pools for the Network screen |
//! | `wallets` | wallets that the operator creates, and the policy file that a tool writes |
//! | `tool_info` | tools of the catalog as screens show them |
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
pub mod accounting;
pub mod actor;
pub mod allowances;
pub mod backup;
pub mod data;
pub mod deposits;
mod depth;
pub mod ens;
mod environment;
pub mod faucet;
pub mod labels;
pub mod market;
pub mod operator_action;
mod orders;
pub mod policy;
pub mod policy_cage;
pub mod questions;
pub mod quotes;
pub mod reauthentication;
pub mod reconcile;
pub mod rehearsal;
pub mod rehearsed;
pub mod schedules;
pub mod session;
pub mod session_keyring;
pub mod session_keys;
mod signing_context;
mod tool_info;
pub mod transactions;
pub mod wallet_server;
pub mod wallets;

use std::path::PathBuf;

use bardo_base::config::Config;
use golem::archetype::{ArchetypeError, Archetypes};
use golem_tools::engine::Catalog;

pub use environment::{OpenEnvironment, OpenError, open, open_telling};
pub use orders::{SettlingService, auctions, bridge_fees, orders, settling_services};
pub use signing_context::{SigningContext, acting, rules, rules_of_real_networks};
pub use tool_info::tool_info;

/// Loads all archetypes, built-in and custom, and validates them against the rules of delegation and the existing
/// tools.
///
/// # Errors
/// [`ArchetypeError::Unreadable`] for the folder. Faults of single archetypes are in [`Archetypes::broken`], with the
/// delegation path where one matters.
pub fn roles(config: &Config, catalog: &Catalog) -> Result<Archetypes, ArchetypeError> {
    Ok(Archetypes::load(Some(&archetype_folder(config)))?.with_tools_of(catalog))
}

/// Folder of custom archetypes, beside the configuration file.
pub fn archetype_folder(config: &Config) -> PathBuf {
    config.file.with_file_name("archetypes")
}
