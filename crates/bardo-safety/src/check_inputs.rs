//! Inputs of the checks, gathered before they run. They are plain data, so that every check is a pure function and can
//! be tested against a small model. A value that could not be read is an error in its place, never zero.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};

use super::simulate::SimulatedEffects;
use super::value::{ActionValues, UnknownValue};
use bardo_base::clock::BlockTimes;
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::units::Usd;
use golem_chain::network::Network;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::PositionId;

/// Inputs of a check in addition to the signing payload.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckInputs {
    /// Time of the machine's clock, in milliseconds since the Unix epoch.
    pub now_millis: u64,
    /// Time of the block that was simulated, in seconds since the Unix epoch.
    pub block_time: u64,
    /// Phase to decide in: the Golem's, or a stricter one that the caller chose.
    pub phase: Phase,
    /// Level of the stop in force, if there is one.
    pub stop: Option<StopLevel>,
    /// Tokens that the payload names, as the network's list and the chain describe them. The proposal's own
    /// descriptions are not trusted.
    pub tokens: BTreeMap<TokenId, TokenInfo>,
    /// Dollar values of the action; an error if any value is not known.
    pub values: Result<ActionValues, UnknownValue>,
    /// Holdings of the account.
    pub portfolio: Result<Portfolio, UnknownValue>,
    /// Effects of the signing payload; `None` before the simulation.
    pub simulation: Option<SimulatedEffects>,
    /// True if a check asks the operator about a limit. Exceeding it is then a question of approval, and the
    /// reservation does not reject the approved action for the same limit.
    pub asked: bool,
}

impl CheckInputs {
    /// Returns the action's class: the simulation's, or the tool's claim if that is stricter. Without a simulation, the
    /// strictest class.
    pub fn class(&self, claimed: ActionClass) -> ActionClass {
        let derived = self.simulation.as_ref().map_or(ActionClass::NewPosition, |simulated| simulated.class);
        // Ordered from the riskiest class.
        derived.min(claimed)
    }

    /// This machine's time beside the chain's.
    pub fn times(&self, network: &Network) -> BlockTimes {
        network.times(self.now_millis / 1_000, self.block_time)
    }

    /// Returns the dollars that count against the caps: for a fair exit its possible loss, gas and takeable amounts,
    /// for any other action everything that is spent. Required consent depends on [`ActionValues::spent`] in both
    /// cases.
    ///
    /// # Errors
    /// [`UnknownValue`] if a value is not known.
    pub fn counted(&self) -> Result<Usd, UnknownValue> {
        let values = self.values.as_ref().map_err(Clone::clone)?;
        if !self.reduce_only() {
            return Ok(values.spent);
        }
        let loss = values.exit_loss()?;
        let left = values.takeable.iter().try_fold(values.gas, |sum, one| sum.checked_add(one.usd));
        left.and_then(|left| left.checked_add(loss)).map_err(UnknownValue::because)
    }

    /// Returns true if the simulation found a fair exit.
    pub fn reduce_only(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.reduce_only)
    }

    /// Returns true if the simulation found that the action only revokes, cancels or refunds.
    pub fn only_revokes(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.only_revokes)
    }
}

/// Holdings of an account in the known tokens and in liquidity positions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Portfolio {
    /// Holdings above zero.
    pub holdings: Vec<PortfolioHolding>,
    /// Total value of holdings with a price feed and of [`Self::positions`], in dollars.
    pub equity: Usd,
    /// Total value of holdings that only pools price, in dollars. Pool prices can be manipulated, so it counts as
    /// equity only up to the policy's `max_unfed_usd`.
    pub by_pools: Usd,
    /// Tokens held without a known price. They are not in [`Self::equity`].
    pub unpriced: Vec<TokenInfo>,
    /// Price at which a holding of each token counts, in dollars per whole token, by contract. It includes tokens that
    /// are not held.
    pub lowest: BTreeMap<Address, Usd>,
    /// Liquidity positions with a value, which is in [`Self::equity`].
    pub positions: Vec<PositionHolding>,
    /// Liquidity positions without a value, which count as nothing: one of their tokens is not listed or has no feed, or a
    /// hook does not let them out.
    pub uncounted_positions: Vec<PositionId>,
    /// Number of liquidity positions beyond those that are read, which count as nothing.
    pub unread_positions: u64,
    /// Dollars of each token in liquidity positions, at the highest known price, for limits on one holding. Of a position
    /// without a value, the amounts at its pool's price.
    pub in_positions: BTreeMap<TokenId, Usd>,
}

/// Liquidity position of the account.
#[derive(Debug, Clone, PartialEq)]
pub struct PositionHolding {
    /// Identity of the position.
    pub id: PositionId,
    /// Amounts of token0 and token1 at the feeds' price, with what the position is owed, in raw units.
    pub amounts: [U256; 2],
    /// Value in dollars at the feeds' prices.
    pub value: Usd,
}

/// Holding of one token.
#[derive(Debug, Clone, PartialEq)]
pub struct PortfolioHolding {
    /// Token that the account holds.
    pub token: TokenInfo,
    /// Balance in raw units.
    pub amount: U256,
    /// Value in dollars, at the feed's price or else at the lowest pool price.
    pub value: Usd,
    /// Value in dollars, at the highest known price.
    pub highest: Usd,
}
