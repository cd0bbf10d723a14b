//! The faucet: sends ether or tokens on request, in ordinary transactions.

use alloy::primitives::{Address, TxKind, U256};
use alloy::sol_types::SolCall;

use super::actors::{ActorRole, ActorTransaction, TIP};
use super::error::SandboxError;
use super::genesis::Deployment;
use super::plan::SandboxToken;
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};

/// Assets that the faucet sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaucetAsset {
    /// Amount of ether, in wei.
    Ether(U256),
    /// Token with an amount in raw units.
    Token(SandboxToken, U256),
}

/// Transactions that send `gift` to `to`, in order.
///
/// # Errors
/// [`SandboxError::NoSuchToken`] if the chain does not have the token.
pub fn orders(deployment: &Deployment, to: Address, gift: FaucetAsset) -> Result<Vec<ActorTransaction>, SandboxError> {
    let call = |target, input| ActorTransaction::call(ActorRole::Faucet, target, input, 150_000, "a faucet transfer");
    Ok(match gift {
        FaucetAsset::Ether(value) => {
            // The gas suffices for a recipient with code.
            let step = "a faucet transfer";
            vec![ActorTransaction {
                role: ActorRole::Faucet,
                to: TxKind::Call(to),
                value,
                input: Default::default(),
                gas: 100_000,
                tip: TIP,
                step,
            }]
        }
        FaucetAsset::Token(SandboxToken::Weth, value) => vec![
            ActorTransaction { value, ..call(deployment.weth, Weth9::depositCall {}.abi_encode()) },
            call(deployment.weth, Erc20::transferCall { to, value }.abi_encode()),
        ],
        FaucetAsset::Token(token, value) => {
            vec![call(deployment.token(token)?, OpenMint::mintCall { to, value }.abi_encode())]
        }
    })
}
