//! All `sol!` bindings: the parts of the contracts' interfaces that Bardo calls or decodes.
//!
//! Not here: addresses (see `golem_chain::network`), bytecode (see `bardo_sandbox::contracts`), and behaviour of any
//! kind.
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
pub mod delegation;
pub mod erc20;
pub mod erc4337;
pub mod erc4626;
pub mod erc7540;
pub mod erc7683;
pub mod erc8004;
pub mod feed;
pub mod gas_price_oracle;
pub mod multicall3;
pub mod nft;
pub mod permit2;
pub mod policy_cage;
pub mod protocol_fees;
pub mod safe;
pub mod second_approval;
pub mod smart_account;
pub mod uniswap_v2;
pub mod uniswap_v3;
pub mod uniswap_v4;
pub mod uniswapx;
pub mod universal_router;
