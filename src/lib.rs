//! Bardo: a terminal from which a person runs an on-chain trading agent.
//!
//! The modules are rooms on numbered floors; a room imports only from floors below its own
//! (`tests/floors.rs` checks it). `ARCHITECTURE.md` is the map.
//!
//! | floor | room | holds |
//! |---|---|---|
//! | 14 | [`cli`], [`console`] | subcommands; the full-screen program |
//! | 13 | [`runtime`] | wires a network to an engine; the session behind a console, its questions, the data folder |
//! | 12 | [`golem`] | the agent: phases, archetypes, memory, its eight tools, brains |
//! | 11 | [`tools`] | the tools, one file each, and the list of them |
//! | 10 | [`engine`] | what a tool is, the catalog, the executor, the envelope |
//! | 9 | [`custody`] | keys in encrypted files, and the accounts that sign with them |
//! | 8 | [`safety`] | what stands between a wish and a signature: frames, checks, simulation, permits, approvals |
//! | 7 | [`sandbox`] | the devnet's inhabitants: genesis, market, price keeper, faucet, order service, fillers, relayers |
//! | 6 | [`uniswap`] | pool mathematics of V2 and V3, quotes to the wei, routing, UniswapX orders |
//! | 6 | [`intents`] | cross-chain intents after ERC-7683 |
//! | 6 | [`erc8004`] | identity, reputation and validation of agents |
//! | 5 | [`chain`] | networks, tokens, prices, provider stack, the bare devnet, fork simulation, sender |
//! | 4 | [`store`] | the SQLite file, its writer thread, the migration runner |
//! | 3 | [`abi`] | every `sol!` in one place |
//! | 2 | [`fabric`] | events, the bus that orders them, the journal |
//! | 1 | [`base`] | units, text, errors, configuration, clock |
#![forbid(unsafe_code)]
// What may stop a program that holds keys stands in tests only.
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

pub mod cli;

pub use bardo_abi as abi;
pub use bardo_base as base;
pub use bardo_base::fabric;
pub use bardo_console as console;
pub use bardo_runtime as runtime;
pub use bardo_safety as safety;
pub use bardo_safety::custody;
pub use bardo_sandbox as sandbox;
pub use bardo_store as store;
pub use golem;
pub use golem_chain as chain;
pub use golem_protocols::{erc8004, intents, uniswap};
pub use golem_tools as tools;
pub use golem_tools::engine;
