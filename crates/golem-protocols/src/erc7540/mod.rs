//! Asynchronous vaults of ERC-7540: an account's requests, the arithmetic of shares at the vault's valuation, the
//! calls of its manager, and what everything
//! that an account has in such a vault would pay out.

pub mod manage;
pub mod math;
pub mod requests;
