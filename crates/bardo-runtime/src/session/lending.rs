//! Unwinding of supplies and debts in lending markets, before holdings are sold: debts are repaid as far as the wallet has
//! their tokens, then supplies are withdrawn. What stays is reported.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use serde_json::json;

use super::selling::{SaleCause, name_of};
use super::state::SessionState;
use bardo_base::error::ToolError;
use bardo_base::units::TokenAmount;
use golem_protocols::aave::market::{MarketContracts, MarketError, MarketState};
use golem_protocols::aave::position::ReservePosition;
use golem_tools::engine::{ConnectedChain, TokenHolding, ToolCall, ToolInput, ToolResponse, WriteTool};
use golem_tools::lending::lending_repay::LendingRepay;
use golem_tools::lending::lending_withdraw::LendingWithdraw;

/// Result of an unwinding.
#[derive(Debug, Default)]
pub(super) struct LendingUnwound {
    /// True if a supply was withdrawn, which can be sold now.
    pub withdrew: bool,
    /// True if something is still owed.
    pub owes: bool,
    /// Sentences about what stays in the markets, and why.
    pub stays: Vec<String>,
}

/// Position of a market's account on a chain, in words.
fn amount(one: &ReservePosition, raw: U256, symbol: &str) -> String {
    let whole = TokenAmount::new(raw, one.reserve.config.decimals);
    whole.map_or_else(|_| format!("some {symbol}"), |whole| format!("{whole} {symbol}"))
}

/// Market of a chain with the account's position; `None` without supplies and debts. Supplies of tokens that are not listed
/// are left out, as in the account's value: anybody can make one for the account, which would keep every unwinding from
/// being complete.
async fn market(chain: &ConnectedChain, account: Address) -> Result<Option<MarketState>, MarketError> {
    let Ok(contracts) = MarketContracts::of(chain.network()) else { return Ok(None) };
    let (provider, block): (_, BlockId) = chain.client.newest().await?;
    if chain.receipts().is_used(&contracts, provider, account, block).await? != Some(true) {
        return Ok(None);
    }
    let mut state = contracts.state(provider, account, block).await?;
    let is_listed = |token: Address| chain.network().book.token_at(token).is_some();
    state.positions.retain(|one| !one.debt.is_zero() || is_listed(one.reserve.asset));
    Ok(Some(state))
}

/// Names of amounts, such as `5 USDC and 3 DAI`; `None` for none.
fn listed(chain: &ConnectedChain, state: &MarketState, of: fn(&ReservePosition) -> U256) -> Option<String> {
    let held = state.positions.iter().filter(|one| !of(one).is_zero());
    let named: Vec<String> =
        held.map(|one| amount(one, of(one), &chain.network().book.symbol_at(one.reserve.asset))).collect();
    (!named.is_empty()).then(|| named.join(" and "))
}

impl SessionState {
    /// Repays every debt as far as the wallet reaches, and withdraws every supply that secures none any more.
    pub(super) async fn unwind_lending(&self, account: Address, cause: SaleCause) -> LendingUnwound {
        let mut all = LendingUnwound::default();
        for chain in self.sources.world.chains() {
            self.unwind_market(chain, account, cause, &mut all).await;
        }
        all
    }

    async fn unwind_market(
        &self,
        chain: &ConnectedChain,
        account: Address,
        cause: SaleCause,
        all: &mut LendingUnwound,
    ) {
        let place = &chain.network().name;
        let unread =
            |error: &MarketError| format!("Supplies and debts on {place} could not be read and stay: {error}.");
        let before = match market(chain, account).await {
            Ok(Some(state)) => state,
            Ok(None) => return,
            Err(error) => return all.stays.push(unread(&error)),
        };
        let mut failures = Vec::new();
        for one in before.positions.iter().filter(|one| !one.debt.is_zero()) {
            match self.repayable(chain, account, one).await {
                Ok(Some(amount)) => {
                    let repaid = self.lend_by_hand((LendingRepay::META.name, &amount), chain, one, cause).await;
                    failures.extend(repaid.error.map(|error| error.message().to_owned()));
                }
                Ok(None) => failures.push(format!(
                    "the {} in the wallet belong to the depositors of a vault, and repay no debt",
                    chain.network().book.symbol_at(one.reserve.asset)
                )),
                Err(error) => failures.push(error.message().to_owned()),
            }
        }
        let between = match market(chain, account).await {
            Ok(Some(state)) => state,
            Ok(None) => return,
            Err(error) => return all.stays.push(unread(&error)),
        };
        let owes = between.positions.iter().any(|one| !one.debt.is_zero());
        // What secures a debt is not let go of by the policy, as long as the debt stands.
        let free = |one: &&ReservePosition| !(one.supplied.is_zero() || owes && one.is_collateral);
        for one in between.positions.iter().filter(free) {
            let withdrawn = self.lend_by_hand((LendingWithdraw::META.name, "max"), chain, one, cause).await;
            all.withdrew |= withdrawn.error.is_none();
            failures.extend(withdrawn.error.map(|error| error.message().to_owned()));
        }
        let after = match market(chain, account).await {
            Ok(Some(state)) => state,
            Ok(None) => return,
            Err(error) => return all.stays.push(unread(&error)),
        };
        all.owes |= after.positions.iter().any(|one| !one.debt.is_zero());
        all.stays.extend(left(chain, &after));
        // The first reason stands for those that follow from it.
        all.stays.extend(failures.first().map(|why| format!("The lending market on {place}: {why}.")));
    }

    /// Sentences about the account's supplies and debts, for its owner; empty without any.
    pub(super) async fn lending_left(&self, account: Address) -> Vec<String> {
        let mut words = Vec::new();
        for chain in self.sources.world.chains() {
            match market(chain, account).await {
                Ok(Some(state)) => words.extend(left(chain, &state)),
                Ok(None) => {}
                Err(error) => {
                    let place = &chain.network().name;
                    words.push(format!("Supplies and debts on {place} could not be read: {error}."));
                }
            }
        }
        words
    }

    /// Amount to repay of a debt: all of it, or what the wallet has besides the tokens of vaults' depositors. `None` if it has
    /// nothing else.
    async fn repayable(
        &self,
        chain: &ConnectedChain,
        account: Address,
        one: &ReservePosition,
    ) -> Result<Option<String>, ToolError> {
        let asset = one.reserve.asset;
        let of_others = self.held_for_others(chain, account).await?;
        let Some((_, owed)) = of_others.get(&asset) else { return Ok(Some("max".to_owned())) };
        let held = match chain.held(account, &[asset]).await?.first() {
            Some(TokenHolding::Amount(amount)) => *amount,
            Some(TokenHolding::NoContract | TokenHolding::Unreadable) | None => U256::ZERO,
        };
        let own = held.saturating_sub(*owed).min(one.debt);
        Ok((!own.is_zero())
            .then(|| TokenAmount::new(own, one.reserve.config.decimals))
            .transpose()?
            .map(|own| own.to_string()))
    }

    async fn lend_by_hand(
        &self,
        (tool, amount): (&'static str, &str),
        chain: &ConnectedChain,
        one: &ReservePosition,
        cause: SaleCause,
    ) -> ToolResponse {
        let params = json!({
            "token": name_of(chain, one.reserve.asset),
            "amount": amount,
            "chain": chain.network().chain_id.to_string(),
        });
        let call = ToolCall { asked_by: cause.asks(None), ..ToolCall::new(tool, ToolInput::Json(params)) };
        self.sources.operator.call(call).await
    }
}

/// Sentence about what stays in a market; `None` if nothing does.
fn left(chain: &ConnectedChain, state: &MarketState) -> Option<String> {
    let place = &chain.network().name;
    let (owed, supplied) = (listed(chain, state, |one| one.debt), listed(chain, state, |one| one.supplied));
    match (owed, supplied) {
        (Some(owed), Some(supplied)) => {
            Some(format!("On {place}, {owed} of debt to Aave stays, and {supplied} as its security."))
        }
        (Some(owed), None) => Some(format!("On {place}, {owed} of debt to Aave stays.")),
        (None, Some(supplied)) => Some(format!("On {place}, {supplied} stays supplied to Aave.")),
        (None, None) => None,
    }
}
