//! Vaults of the ERC-4626 standard: the calls by which an account deposits and withdraws for itself, and what its shares pay
//! out. A vault's words about a share's worth are never believed: what counts is a simulated redemption.

pub mod call;
pub mod holding;
