//! What others may take of an account's tokens, by the chain's word: one list, which the screen shows and
//! `bardo reconcile` tells.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};

use super::handle::AllowanceNow;
use crate::abi::erc20::Erc20;
use crate::abi::permit2::Permit2;
use crate::base::error::ToolError;
use crate::base::text::SafeText;
use crate::base::units::TokenAmount;
use crate::chain::multicall::Calls;
use crate::chain::network::{BookToken, Contract, Network};
use crate::engine::WorldChain;
use crate::safety::value::is_unlimited;

/// Contracts that take tokens from a wallet here.
const SPENDERS: [Contract; 6] = [
    Contract::Permit2,
    Contract::UniversalRouter,
    Contract::UniversalRouterV211,
    Contract::UniversalRouterV212,
    Contract::UniversalRouterV220,
    Contract::OriginSettler,
];

/// What others may take of the listed tokens of `owner`, on the tokens themselves and inside Permit2.
///
/// # Errors
/// The chain does not answer.
pub async fn standing(chain: &WorldChain, owner: Address) -> Result<Vec<AllowanceNow>, ToolError> {
    let network = chain.network();
    let mut calls = Calls::default();
    let mut in_tokens = Vec::new();
    let mut in_permit2 = Vec::new();
    let spenders: Vec<Address> = SPENDERS.into_iter().filter_map(|one| network.book.contract(one)).collect();
    for token in network.book.tokens() {
        for spender in &spenders {
            let call = calls.push(token.address, &Erc20::allowanceCall { owner, spender: *spender });
            in_tokens.push((token, *spender, call));
            if let Some(permit2) = network.book.contract(Contract::Permit2).filter(|permit2| permit2 != spender) {
                let asked = Permit2::allowanceCall { owner, token: token.address, spender: *spender };
                in_permit2.push((token, *spender, calls.push(permit2, &asked)));
            }
        }
    }
    let answers = chain.ask(calls, BlockId::latest()).await?;
    let mut rows = Vec::new();
    for (token, spender, call) in in_tokens {
        let raw = call.take(&answers).unwrap_or_default();
        rows.extend(row(network, token, spender, raw, None));
    }
    for (token, spender, call) in in_permit2 {
        let Some(found) = call.take(&answers) else { continue };
        rows.extend(row(network, token, spender, U256::from(found.amount), Some(found.expiration.to())));
    }
    Ok(rows)
}

fn row(
    network: &Network,
    token: &BookToken,
    spender: Address,
    raw: U256,
    expires_at: Option<u64>,
) -> Option<AllowanceNow> {
    if raw.is_zero() {
        return None;
    }
    Some(AllowanceNow {
        chain: SafeText::clean(&network.name, 40),
        chain_id: network.chain_id,
        symbol: SafeText::clean(&token.symbol, 20),
        token: token.address,
        spender,
        label: network.book.name_of(spender).map(|label| SafeText::clean(&label, 60)),
        through_permit2: expires_at.is_some(),
        raw,
        amount: TokenAmount::new(raw, token.decimals).ok(),
        unlimited: is_unlimited(raw),
        expires_at,
    })
}
