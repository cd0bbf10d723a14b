//! Protocols that Bardo trades through: pool mathematics and orders of Uniswap, cross-chain intents after ERC-7683, agent
//! identities after ERC-8004, the lending market Aave V3, vaults after ERC-4626 and ERC-7540, and the bridge Across.
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

pub mod aave;
pub mod across;
pub mod erc4626;
pub mod erc7540;
pub mod erc8004;
pub mod intents;
pub mod protocol_fees;
pub mod uniswap;
