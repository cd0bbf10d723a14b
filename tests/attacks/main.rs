//! Attacks on Bardo: each case plays an attacker and checks a promise of `SECURITY.md`.
//!
//! One file per attacked surface. `SECURITY.md` names every case beside the promise it proves; [`named`] fails if the
//! two differ. Cases that need a terminal run the real binary in a pseudo-terminal.

mod across;
mod alerts;
mod allowances;
mod books;
mod brain;
mod candles;
mod clocks;
mod endpoints;
mod exits;
mod files;
mod identity;
mod keyed_positions;
mod lending;
mod limits;
mod managed_vaults;
mod named;
mod operator;
mod oracle;
mod positions;
mod prices;
mod protocol_fees;
mod questions;
mod real_network;
mod replacements;
mod revocations;
mod safes;
mod second_approval;
mod served;
mod services;
mod tokens;
mod v4;
mod vaults;
mod wallets;
mod wrapped;
mod wraps;
