//! Inputs of the checks, gathered before they run. They are plain data, so that every check is a pure function and can
//! be compared with a small model. An unknown value is an error in its place, never a zero.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};

use super::simulate::Simulated;
use super::value::{Doubt, Values};
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::units::Usd;
use golem_chain::token::{Token, TokenId};

/// Inputs of a check, besides the signing payload.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The machine's clock, in milliseconds since the Unix epoch.
    pub now_millis: u64,
    /// Timestamp of the chain's latest block, in seconds since the Unix epoch.
    pub block_time: u64,
    /// Phase of the Golem; the caller may have requested a stricter one.
    pub phase: Phase,
    /// Level of the stop in force, if there is one.
    pub stop: Option<StopLevel>,
    /// Every token that the payload names, as described by the network's list and the chain. The proposal's own
    /// description is not used.
    pub tokens: BTreeMap<TokenId, Token>,
    /// Dollar values of costs and proceeds; an error if any of them is unknown.
    pub values: Result<Values, Doubt>,
    /// Holdings of the account.
    pub portfolio: Result<Portfolio, Doubt>,
    /// Simulated effect of the payload; `None` before the simulation has run.
    pub simulation: Option<Simulated>,
    /// True if the checks found a limit about which the operator decides: an exit beyond it needs an approval. With
    /// that approval, the same limit is not enforced again.
    pub asked: bool,
}

impl Facts {
    /// Returns the class for the checks: the simulated one or the tool's claim, whichever is stricter. Without a
    /// simulation, it is the strictest class.
    pub fn class(&self, claimed: ActionClass) -> ActionClass {
        let derived = self.simulation.as_ref().map_or(ActionClass::NewPosition, |simulated| simulated.class);
        // The order starts with the riskiest class.
        derived.min(claimed)
    }

    /// Returns the dollar value that counts against the limits: for a fair exit its possible loss, remaining allowances
    /// and gas, otherwise all that is spent. The required level of consent depends on [`Values::spent`] in either case.
    ///
    /// # Errors
    /// [`Doubt`] if a value is unknown.
    pub fn counted(&self) -> Result<Usd, Doubt> {
        let values = self.values.as_ref().map_err(Clone::clone)?;
        if !self.reduce_only() {
            return Ok(values.spent);
        }
        let loss = values.exit_loss()?;
        let left = values.takeable.iter().try_fold(values.gas, |sum, one| sum.checked_add(one.usd));
        left.and_then(|left| left.checked_add(loss)).map_err(Doubt::because)
    }

    /// Returns true if the simulation found that the action only leaves positions, at a fair price.
    pub fn reduce_only(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.reduce_only)
    }

    /// Returns true if the simulation found that the action only revokes, cancels or refunds.
    pub fn takes_back(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.takes_back)
    }
}

/// Holdings of an account in the known tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Portfolio {
    /// Holdings above zero.
    pub holdings: Vec<Holding>,
    /// Total value of the holdings with a price feed.
    pub equity: Usd,
    /// Total value of the holdings that only pools price. It can be manipulated through the pools, so it counts as
    /// equity only up to the policy's `max_unfed_usd`.
    pub by_pools: Usd,
    /// Tokens held without a price, which are not in [`Self::equity`].
    pub unpriced: Vec<Token>,
    /// Price at which a holding of each token counts, by contract, whether held or not.
    pub lowest: BTreeMap<Address, Usd>,
}

/// Holding of one token.
#[derive(Debug, Clone, PartialEq)]
pub struct Holding {
    /// Token of the holding.
    pub token: Token,
    /// Balance in raw units.
    pub amount: U256,
    /// Value at the lowest known price.
    pub value: Usd,
    /// Value at the highest known price.
    pub highest: Usd,
}
