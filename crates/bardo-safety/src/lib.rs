//! Safety pipeline: everything between a tool's proposal and a signature. A tool makes a [`Proposal`], and the account
//! turns it into an exact signing payload ([`SigningPayload`]). Checks, simulation, permit, approval and signature all
//! read that payload, so that the checked bytes are the signed bytes.
//!
//! Every failure fails closed: an unknown value blocks the action.
//!
//! | file | contents |
//! |---|---|
//! | `proposal` | what a tool wants to do |
//! | `account` | interface of signing accounts |
//! | `signing_payload`, `binding`, `content` | the signing payload, the hash that a permit binds, and the content shown to the operator |
//! | `typed` | the kinds of typed data that can be signed |
//! | `calldata` | effects of the calls, decoded from their bytes |
//! | `check_inputs`, `verdict` | inputs and results of checks |
//! | `chain_snapshot` | chain state read before a decision |
//! | `checks` | the checks, one file each |
//! | `lending_calls`, `position_calls`, `registry_calls`, `vault_calls`, `vault_management` | calls of the lending pool, the position manager, the registries of agents and vaults, in closed forms |
//! | `fee_calls`, `hook_calls` | calls about protocol fees, and deployments of hooks, in closed forms |
//! | `lending_equity`, `vault_equity` | supplies and debts, and shares of vaults, as a part of the equity |
//! | `revocation` | actions that only revoke, cancel or refund, by intent and calldata |
//! | `policy_engine`, `operator_policy` | interface of policy, stop file and ledger, and its implementation |
//! | `status` | usage of every limit |
//! | `value` | dollar values: outflows at the highest price, inflows at the lowest |
//! | `simulate` | simulation, and comparison with the declaration |
//! | `onchain_policy` | client of the PolicyCage contract |
//! | `permit`, `approval`, `guardian` | consent |
//! | `grants` | spenders and recipients of an action, and address book entries that can never be one |
//! | `queue_key` | key that authenticates approval requests, answers and known parties in the ledger |
//! | `policy` | the operator's policy: file, presets, comparison, limits |
//! | `ledger` | spending in sliding windows, rates, failure breaker, stop-loss |
//! | `parties` | authenticated records of recipients, spenders and tokens of earlier actions |
//! | `paper` | ledger of paper-mode actions, in a database of its own |
//! | `stop` | stop file, and the actions that each level lets through |
//! | `operator_proof` | proof that the operator, not a script, made a decision |
//! | `audit` | hash-chained audit log and its anchor |
//! | `orders` | signed orders that others settle, followed to their end on chain |
//! | `safe_proposals` | proposals of Safes that need several owners, until their end on chain |
//! | `pipeline` | the write pipeline, and the only source of a [`Capability`] |
//!
//! Keys are in `custody`. Tools and user interfaces are in other crates.
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
pub mod across_calls;
pub mod approval;
pub mod audit;
mod binding;
pub mod calldata;
pub mod chain_snapshot;
pub mod check_inputs;
pub mod checks;
pub mod content;
pub mod custody;
pub mod fee_calls;
pub mod grants;
pub mod guardian;
pub mod hook_calls;
pub mod ledger;
pub mod lending_calls;
mod lending_equity;
pub mod onchain_policy;
pub mod operator_policy;
pub mod operator_proof;
pub mod orders;
pub mod paper;
mod parties;
pub mod permit;
pub mod pipeline;
pub mod policy;
pub mod policy_engine;
pub mod position_calls;
pub mod proposal;
pub mod queue_key;
pub mod registry_calls;
pub mod revocation;
pub mod safe_proposals;
#[cfg(test)]
mod sample;
pub mod second_approval;
pub mod signing_payload;
pub mod simulate;
pub mod status;
pub mod stop;
pub mod typed;
pub mod value;
pub mod vault_calls;
mod vault_equity;
pub mod vault_management;
pub mod verdict;
pub mod waiting_plan;
pub mod wrapping;

pub use account::{Account, AccountKind, PayloadContext, RevocationCause, SignError};
pub use check_inputs::CheckInputs;
pub use pipeline::Capability;
pub use proposal::Proposal;
pub use signing_payload::{
    FeeBound, PayloadError, PayloadLeg, PayloadOrder, PayloadParts, PayloadSlot, SafePlan, SigningPayload,
};
pub use verdict::Verdict;
