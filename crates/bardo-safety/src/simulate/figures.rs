//! Amounts in faults, as whoever has money behind them reads them: whole tokens, with symbol and contract.

use alloy::primitives::U256;
use alloy::primitives::aliases::U160;

use crate::proposal::Proposal;
use bardo_base::format::utc;
use bardo_base::units::TokenAmount;
use golem_chain::token::{Token, TokenId};

/// The token as the proposal describes it; whether that is right is held against the chain elsewhere.
fn described(proposal: &Proposal, id: TokenId) -> Option<&Token> {
    let trade = proposal.trade.iter().flat_map(|trade| [&trade.token_in, &trade.token_out]);
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let inflows = proposal.inflows.iter().map(|inflow| &inflow.token);
    let allowances = proposal.allowances.iter().map(|bound| &bound.token);
    flows.chain(inflows).chain(allowances).chain(trade).find(|token| token.id == id)
}

/// A token's symbol and contract; the contract alone where the proposal does not describe it.
pub(crate) fn name(proposal: &Proposal, id: TokenId) -> String {
    match (described(proposal, id), id) {
        (Some(token), _) => name_of(token),
        (None, TokenId::Erc20(address)) => address.to_string(),
        (None, TokenId::Native) => "the chain's coin".to_owned(),
    }
}

fn name_of(token: &Token) -> String {
    match token.id {
        TokenId::Erc20(address) => format!("{} ({address})", token.symbol),
        TokenId::Native => token.symbol.to_string(),
    }
}

/// So much of a token: in whole tokens where their decimals are known, else in smallest units.
pub(crate) fn figure(proposal: &Proposal, id: TokenId, raw: U256) -> String {
    match (described(proposal, id), id) {
        (Some(token), _) => figure_of(token, raw),
        (None, _) if without_bound(raw) => format!("an unlimited amount of {}", name(proposal, id)),
        (None, TokenId::Native) => format!("{} of {}", TokenAmount::ether(raw), name(proposal, id)),
        (None, TokenId::Erc20(address)) => format!("{raw} smallest units of {address}"),
    }
}

/// So much of a token that is known.
pub(crate) fn figure_of(token: &Token, raw: U256) -> String {
    let name = name_of(token);
    match TokenAmount::new(raw, token.decimals) {
        _ if without_bound(raw) => format!("an unlimited amount of {name}"),
        Ok(amount) => format!("{amount} {name}"),
        Err(_) => format!("{raw} smallest units of {name}"),
    }
}

/// What tokens and Permit2 take for no bound at all.
fn without_bound(raw: U256) -> bool {
    raw == U256::MAX || raw == U256::from(U160::MAX)
}

/// A time in seconds since the Unix epoch.
pub(crate) fn when(seconds: u64) -> String {
    /// The year 10000: whoever writes a later time means no end at all.
    const NEVER: u64 = 253_402_300_800;
    if seconds >= NEVER { "the end of time".to_owned() } else { utc(seconds.saturating_mul(1_000)) }
}
