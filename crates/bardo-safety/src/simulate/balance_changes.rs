//! Simulation results for display: each balance that moves, and the gas.

use alloy::primitives::U256;

use super::SimulatedEffects;
use crate::content;
use crate::proposal::Proposal;
use crate::signing_payload::SigningPayload;
use bardo_base::fabric::{LeastOut, SimulatedChange};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use golem_chain::token::{TokenId, TokenInfo};

/// Decimals of every chain's native token.
const COIN_DECIMALS: u8 = 18;
/// Maximum length of a figure, in characters; longer than any real one.
const FIGURE: usize = 120;

impl SimulatedEffects {
    /// Returns the account's balance changes in the order of [`SimulatedEffects::moves`], then one for the gas cost,
    /// which the moves leave out. `declared` are the tokens that the action names, `coin` is the native token's symbol.
    pub fn balance_changes<'t>(
        &self,
        payload: &SigningPayload,
        declared: impl Iterator<Item = &'t TokenInfo> + Clone,
        coin: &str,
    ) -> Vec<SimulatedChange> {
        let moved = self.moves.iter().map(|moved| {
            let token = declared.clone().find(|token| token.id == moved.token);
            let (symbol, decimals) = match (token, moved.token) {
                (Some(token), _) => (content::shown(token), token.decimals),
                (None, TokenId::Native) => (SafeText::clean(coin, FIGURE), COIN_DECIMALS),
                (None, TokenId::Erc20(address)) => (SafeText::clean(&address.to_string(), FIGURE), 0),
            };
            let delta = moved.after.abs_diff(moved.before);
            SimulatedChange {
                symbol,
                address: match moved.token {
                    TokenId::Native => None,
                    TokenId::Erc20(address) => Some(address),
                },
                change: signed(moved.after >= moved.before, &amount(delta, decimals)),
                before: figure(moved.before, decimals),
                after: figure(moved.after, decimals),
                gas: false,
            }
        });
        let held = self.simulation.changes.account(payload.payer()).map(|change| change.balance);
        // The fork has already deducted the gas, so the balance without gas is that much higher.
        let (before, after) = held.map_or_else(Default::default, |balance| {
            let free = balance.after.saturating_add(self.gas_cost);
            (figure(free, COIN_DECIMALS), figure(balance.after, COIN_DECIMALS))
        });
        let gas = SimulatedChange {
            symbol: SafeText::clean(coin, FIGURE),
            address: None,
            change: signed(false, &amount(self.gas_cost, COIN_DECIMALS)),
            before,
            after,
            gas: true,
        };
        moved.chain([gas]).collect()
    }
}

fn amount(raw: U256, decimals: u8) -> String {
    TokenAmount::new(raw, decimals).map_or_else(|_| raw.to_string(), |amount| amount.to_string())
}

fn figure(raw: U256, decimals: u8) -> SafeText {
    SafeText::clean(&amount(raw, decimals), FIGURE)
}

/// Least output of a trade; `None` without a trade.
pub(crate) fn least_out(proposal: &Proposal) -> Option<LeastOut> {
    let trade = proposal.trade.as_ref()?;
    let token = &trade.token_out;
    Some(LeastOut { amount: figure(trade.min_out, token.decimals), symbol: content::shown(token) })
}

fn signed(comes: bool, figure: &str) -> SafeText {
    SafeText::clean(&format!("{}{figure}", if comes { "+" } else { "−" }), FIGURE)
}
