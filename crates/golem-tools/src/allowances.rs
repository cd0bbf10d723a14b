//! ERC-20 and Permit2 allowances: reads them, and builds the calls that set them to exact amounts. Shared by the tools
//! that swap, approve and revoke.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;

use crate::engine::ConnectedChain;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_safety::proposal::{LegPurpose, PlanLeg};
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, ForkSource, NextBlock};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_protocols::uniswap::router::RouterVersion;

/// Gas limit of an approval. Tokens behind proxies need more gas than plain ones.
pub(super) const APPROVAL_GAS: u64 = 120_000;

/// Returns the router for swaps and the version of its input encoding: the first known router of the address book.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if the address book has no Universal Router.
pub(super) fn router(chain: &ConnectedChain) -> Result<(Address, RouterVersion), ToolError> {
    let known = routers(chain).into_iter().next();
    known.map_or_else(|| chain.contract(KnownContract::UniversalRouter).map(|router| (router, RouterVersion::V2_0)), Ok)
}

/// Lists the Universal Routers of the address book that spend through Permit2, with the version of their input
/// encoding. Preferred routers come first.
pub(super) fn routers(chain: &ConnectedChain) -> Vec<(Address, RouterVersion)> {
    let book = &chain.network().book;
    let known = [
        KnownContract::UniversalRouter,
        KnownContract::UniversalRouterV210,
        KnownContract::UniversalRouterV211,
        KnownContract::UniversalRouterV212,
        KnownContract::UniversalRouterV220,
    ];
    known.into_iter().filter_map(|router| Some((book.contract(router)?, RouterVersion::of(router)?))).collect()
}

/// Balance and allowance of a token, read in one block. Raw units.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBalances {
    /// Balance of the owner.
    pub(super) balance: U256,
    /// ERC-20 allowance of the spender.
    pub(super) of_token: U256,
}

/// Permit2 allowance of one spender.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpenderAllowance {
    /// Allowed amount, in raw units.
    pub(super) amount: U256,
    /// Nonce that the next signed Permit2 message must carry.
    pub(super) nonce: u64,
}

/// Reads the allowance of `token` for `spender`, and the Permit2 allowance of each router in `through`.
///
/// # Errors
/// `TOKEN_INVALID` if the token does not answer `balanceOf` or `allowance`. `CHAIN_INCONSISTENT` if Permit2 does not
/// answer. `CHAIN_UNSUPPORTED` if `through` is not empty and the chain has no Permit2.
pub(super) async fn read(
    chain: &ConnectedChain,
    token: Address,
    owner: Address,
    spender: Address,
    through: &[Address],
) -> Result<(TokenBalances, Vec<SpenderAllowance>), ToolError> {
    let mut calls = CallBatch::default();
    let balance = calls.push(token, &Erc20::balanceOfCall { owner });
    let of_token = calls.push(token, &Erc20::allowanceCall { owner, spender });
    let mut inside = Vec::with_capacity(through.len());
    if !through.is_empty() {
        let permit2 = chain.contract(KnownContract::Permit2)?;
        for router in through {
            inside.push(calls.push(permit2, &Permit2::allowanceCall { owner, token, spender: *router }));
        }
    }
    let answers = chain.ask(calls).await?;
    let silent = |what: &str| {
        ToolError::new(ErrorCode::TokenInvalid, format_args!("the contract at {token} does not respond to {what}"))
    };
    let standing = TokenBalances {
        balance: balance.take(&answers).ok_or_else(|| silent("balanceOf"))?,
        of_token: of_token.take(&answers).ok_or_else(|| silent("allowance"))?,
    };
    let inside = inside.into_iter().map(|call| {
        let found = call.take(&answers).ok_or_else(|| {
            let network = chain.network();
            ToolError::new(
                ErrorCode::ChainInconsistent,
                format_args!("cannot read the Permit2 allowances on {network}"),
            )
        })?;
        Ok(SpenderAllowance { amount: U256::from(found.amount), nonce: found.nonce.to() })
    });
    Ok((standing, inside.collect::<Result<_, ToolError>>()?))
}

/// Builds the call that sets a token's allowance to exactly `amount`.
pub(super) fn approve(purpose: LegPurpose, token: Address, spender: Address, amount: U256) -> PlanLeg {
    PlanLeg {
        purpose,
        to: token,
        value: U256::ZERO,
        data: Erc20::approveCall { spender, value: amount }.abi_encode().into(),
        gas_limit: APPROVAL_GAS,
        slots: Vec::new(),
    }
}

/// Returns true if the token rejects a change from one non-zero allowance to another, found by simulating the approval.
/// Such tokens require a reset to zero first, as protection against the ERC-20 approval race.
pub(super) async fn needs_zero_first(
    chain: &ConnectedChain,
    token: Address,
    owner: Address,
    spender: Address,
    amount: U256,
) -> Result<bool, ToolError> {
    let source = ForkSource::of(&chain.client);
    let fork = Fork::pin(&source, BlockId::latest(), NextBlock::default()).await?;
    let call = |amount| {
        let leg = approve(LegPurpose::Approve, token, spender, amount);
        ForkCall::new(owner, leg.to, leg.data).with_gas_limit(leg.gas_limit)
    };
    let direct = fork.simulate(&[call(amount)]).await?;
    Ok(direct.outcomes.iter().any(|outcome| outcome.status != ExecutionStatus::Success))
}
