//! What stands between a wish and a signature. What is checked is what is signed: a tool prepares a
//! [`Proposal`], the account frames it into exact bytes ([`Framed`]), and checks, simulation, permit,
//! approval and signature all read those bytes.
//!
//! Every failure fails closed: what cannot be told blocks.
//!
//! | file | holds |
//! |---|---|
//! | `proposal` | what a tool wants |
//! | `account` | the seam to whoever signs |
//! | `framed`, `binding`, `content` | the exact bytes, the hash a permit binds, and what is drawn of them |
//! | `typed` | the typed data that can be signed: a closed list |
//! | `calldata` | what the calls bind the chain to, read back from their bytes |
//! | `facts`, `verdict` | what checks decide on, and how they answer |
//! | `ground` | what is read of the chain before anything is decided |
//! | `checks` | one file each |
//! | `revocation` | whether an action only revokes, cancels or refunds, by intent and calldata |
//! | `rulebook`, `operator` | the seam to policy, stop ladder and ledger, and what stands behind it |
//! | `status` | how the rules stand, for whoever asks before acting |
//! | `value` | dollars: out at the highest, in at the lowest |
//! | `simulate` | what the bytes do, against what was declared |
//! | `cage` | the owner's policy contract, read and asked first |
//! | `permit`, `approval`, `guardian` | consent |
//! | `grants` | who may take tokens by an action, who is paid, and which entries of the address book never may |
//! | `queue_key` | the key that authenticates approval requests, answers and known parties in the ledger |
//! | `policy` | what the operator allows: file, presets, comparison, limits |
//! | `ledger` | what has been spent and may still be, in sliding windows; rates, breaker, stop-loss |
//! | `parties` | who took part in actions before, by records that only the account's key makes |
//! | `paper` | what actions on paper have moved, in a database of its own |
//! | `stop` | the stop file and what each step of the ladder lets through |
//! | `operator_proof` | what shows that the operator, and no script, lets more through |
//! | `audit` | the hash-chained trail and its anchor |
//! | `orders` | signed orders that others settle, followed on the chain to their end |
//! | `pipeline` | the way through all of it, and the only maker of a [`Capability`] |
//!
//! Not here: keys (see `custody`), tools, and anything that is drawn.
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
pub mod approval;
pub mod audit;
mod binding;
pub mod cage;
pub mod calldata;
pub mod checks;
pub mod content;
pub mod custody;
pub mod facts;
pub mod framed;
pub mod grants;
pub mod ground;
pub mod guardian;
pub mod ledger;
pub mod operator;
pub mod operator_proof;
pub mod orders;
pub mod paper;
mod parties;
pub mod permit;
pub mod pipeline;
pub mod policy;
pub mod proposal;
pub mod queue_key;
pub mod revocation;
pub mod rulebook;
#[cfg(test)]
mod sample;
pub mod simulate;
pub mod status;
pub mod stop;
pub mod typed;
pub mod value;
pub mod verdict;

pub use account::{Account, AccountKind, FrameContext, Revoked, SignError};
pub use facts::Facts;
pub use framed::{FeeBound, Frame, FrameError, Framed, FramedLeg, FramedOrder, FramedSlot};
pub use pipeline::Capability;
pub use proposal::Proposal;
pub use verdict::Verdict;
