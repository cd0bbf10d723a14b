//! The sender on a real chain: nonces under load, lost answers, restarts, replacements, reorganisations, and accounts
//! that somebody else uses too. Nothing here is a stand-in: the chain is the embedded devnet or anvil, the ledger is a
//! file, and answers are lost by a proxy that loses them.

mod endpoints;
mod lanes;
mod late;
mod long_ago;
mod proxy;
mod transactions;
mod world;
