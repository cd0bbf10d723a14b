//! The sender on a real chain: nonces under load, lost answers, restarts, replacements, reorganisations, and accounts
//! that another program uses, too. Nothing is mocked: the chain is the embedded devnet or anvil, the ledger is a file,
//! and a proxy loses answers.

mod endpoints;
mod lanes;
mod late;
mod long_ago;
mod transactions;
