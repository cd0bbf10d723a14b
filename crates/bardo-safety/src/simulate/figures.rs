//! Amounts in faults, for display: whole tokens, with symbol and contract.

use alloy::primitives::U256;
use alloy::primitives::aliases::U160;

use crate::proposal::Proposal;
use bardo_base::format::utc;
use bardo_base::units::TokenAmount;
use golem_chain::token::{TokenId, TokenInfo};

/// Returns the token as the proposal describes it. The description is compared with the chain elsewhere.
fn described(proposal: &Proposal, id: TokenId) -> Option<&TokenInfo> {
    let trade = proposal.trade.iter().flat_map(|trade| [&trade.token_in, &trade.token_out]);
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let inflows = proposal.inflows.iter().map(|inflow| &inflow.token);
    let allowances = proposal.allowances.iter().map(|bound| &bound.token);
    flows.chain(inflows).chain(allowances).chain(trade).find(|token| token.id == id)
}

/// Returns a token's symbol and contract; the contract alone if the proposal does not describe the token.
pub(crate) fn name(proposal: &Proposal, id: TokenId) -> String {
    match (described(proposal, id), id) {
        (Some(token), _) => name_of(token),
        (None, TokenId::Erc20(address)) => address.to_string(),
        (None, TokenId::Native) => "the native token".to_owned(),
    }
}

fn name_of(token: &TokenInfo) -> String {
    match token.id {
        TokenId::Erc20(address) => format!("{} ({address})", token.symbol),
        TokenId::Native => token.symbol.to_string(),
    }
}

/// Formats an amount in whole tokens if their decimals are known, else in smallest units.
pub(crate) fn figure(proposal: &Proposal, id: TokenId, raw: U256) -> String {
    match (described(proposal, id), id) {
        (Some(token), _) => figure_of(token, raw),
        (None, _) if without_bound(raw) => format!("an unlimited amount of {}", name(proposal, id)),
        (None, TokenId::Native) => format!("{} of {}", TokenAmount::ether(raw), name(proposal, id)),
        (None, TokenId::Erc20(address)) => format!("{raw} smallest units of {address}"),
    }
}

/// Formats an amount of a described token.
pub(crate) fn figure_of(token: &TokenInfo, raw: U256) -> String {
    let name = name_of(token);
    match TokenAmount::new(raw, token.decimals) {
        _ if without_bound(raw) => format!("an unlimited amount of {name}"),
        Ok(amount) => format!("{amount} {name}"),
        Err(_) => format!("{raw} smallest units of {name}"),
    }
}

/// Returns true for the values that tokens and Permit2 treat as unlimited.
fn without_bound(raw: U256) -> bool {
    raw == U256::MAX || raw == U256::from(U160::MAX)
}

/// Formats a time in seconds since the Unix epoch.
pub(crate) fn when(seconds: u64) -> String {
    /// Start of the year 10000: later times mean no end.
    const NEVER: u64 = 253_402_300_800;
    if seconds >= NEVER { "the end of time".to_owned() } else { utc(seconds.saturating_mul(1_000)) }
}
