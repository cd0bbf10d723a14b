//! What checks decide on, gathered before they run: plain data, so that every check is a pure
//! function and can be held against a small model of itself. What could not be told is an error in
//! its place, never a zero.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};

use super::simulate::Simulated;
use super::value::{Doubt, Values};
use bardo_base::clock::Times;
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::units::Usd;
use golem_chain::network::Network;
use golem_chain::token::{Token, TokenId};

/// Everything a check may look at beside the frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The machine's clock, in milliseconds since the Unix epoch.
    pub now_millis: u64,
    /// The time of the chain's latest block, in seconds since the Unix epoch.
    pub block_time: u64,
    /// How well the Golem is doing; tightened by the caller where it asked for that.
    pub phase: Phase,
    /// The stop in force, if one is.
    pub stop: Option<StopLevel>,
    /// Every token the frame names, as the network's list and the chain describe it: a proposal's own
    /// description is not believed.
    pub tokens: BTreeMap<TokenId, Token>,
    /// What it costs and brings in dollars; an error as soon as one figure could not be told.
    pub values: Result<Values, Doubt>,
    /// What the account holds.
    pub portfolio: Result<Portfolio, Doubt>,
    /// What the framed bytes do; `None` before the simulation has run.
    pub simulation: Option<Simulated>,
    /// Whether the checks found a limit that the operator decides about: an exit beyond it is a question, and the same limit
    /// is not held against it again where the answer is an approval.
    pub asked: bool,
}

impl Facts {
    /// The class the action is treated as: what the simulation derived, or what the tool claims where
    /// that is stricter. Without a simulation, the strictest.
    pub fn class(&self, claimed: ActionClass) -> ActionClass {
        let derived = self.simulation.as_ref().map_or(ActionClass::NewPosition, |simulated| simulated.class);
        // Ordered from the riskiest on.
        derived.min(claimed)
    }

    /// This machine's time beside the chain's.
    pub fn times(&self, network: &Network) -> Times {
        network.times(self.now_millis / 1_000, self.block_time)
    }

    /// What counts against the caps, in dollars: for a fair exit what it may lose and its gas, for everything else all
    /// that is spent. How much consent an action takes follows from [`Values::spent`] either way.
    ///
    /// # Errors
    /// A [`Doubt`] where a value is not known.
    pub fn counted(&self) -> Result<Usd, Doubt> {
        let values = self.values.as_ref().map_err(Clone::clone)?;
        if !self.reduce_only() {
            return Ok(values.spent);
        }
        let loss = values.exit_loss()?;
        let left = values.takeable.iter().try_fold(values.gas, |sum, one| sum.checked_add(one.usd));
        left.and_then(|left| left.checked_add(loss)).map_err(Doubt::because)
    }

    /// Whether the simulation found that it only leaves positions, at a fair price.
    pub fn reduce_only(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.reduce_only)
    }

    /// Whether the simulation found that it only takes back what others may take.
    pub fn takes_back(&self) -> bool {
        self.simulation.as_ref().is_some_and(|simulated| simulated.takes_back)
    }
}

/// What an account holds of the tokens that are known here.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Portfolio {
    /// Each holding above zero.
    pub holdings: Vec<Holding>,
    /// Holdings with a feed together.
    pub equity: Usd,
    /// Holdings that only pools price, together: whoever moves a pool moves this, so that it counts as equity up to the
    /// policy's `max_unfed_usd` only.
    pub by_pools: Usd,
    /// Held, and without a price: not in [`Self::equity`].
    pub unpriced: Vec<Token>,
    /// The price at which a holding of each token counts, held or not, by contract.
    pub lowest: BTreeMap<Address, Usd>,
}

/// One token held.
#[derive(Debug, Clone, PartialEq)]
pub struct Holding {
    /// Which.
    pub token: Token,
    /// Raw units.
    pub amount: U256,
    /// At the lowest of the prices known.
    pub value: Usd,
    /// At the highest.
    pub highest: Usd,
}
