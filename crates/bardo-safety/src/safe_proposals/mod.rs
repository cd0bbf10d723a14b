//! Proposals of Safes that need several owners: kept from the first signature until the Safe has executed them, or another
//! transaction with their number. A proposal keeps its spending reserved all that time, because the owners who have signed
//! it can execute it without Bardo.
//!
//! | file | contents |
//! |---|---|
//! | `stored` | proposals as a file and the ledger have them |
//! | `record` | rows of the ledger |
//! | `exchange` | the file that owners exchange |
//!
//! Not here: signing and executing (see `pipeline::safe_proposals`), the Safe's transactions and signatures (see
//! `custody::safe`).

pub mod exchange;
pub mod record;
mod stored;

pub use exchange::{ExchangeError, ExchangeFile};
pub use record::{SafeProposalRecord, SafeProposalState};
pub use stored::{StoredProposal, StoredProposalError};
