//! What an action costs and brings in dollars: what goes out at the highest, what comes in at the
//! lowest of the prices that can be told. A figure that cannot be told is a [`Doubt`], never zero.

use alloy::primitives::U256;

use crate::base::text::SafeText;
use crate::base::units::Usd;
use crate::chain::token::Token;

/// What an action costs and brings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values {
    /// Each declared outflow, at the highest price.
    pub outflows: Vec<Valued>,
    /// The least of each declared inflow to the account, at the lowest price.
    pub inflows: Vec<Valued>,
    /// What can still be taken afterwards by allowances and signatures, beyond the outflows, at the
    /// highest price.
    pub takeable: Vec<Valued>,
    /// Gas of every leg to its limit at the highest fee.
    pub gas: Usd,
    /// What counts as spent: outflows, takeable and gas.
    pub spent: Usd,
    /// All inflows together.
    pub received: Usd,
}

/// An amount and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Valued {
    /// Which token.
    pub token: Token,
    /// Raw units.
    pub amount: U256,
    /// Dollars.
    pub usd: Usd,
}

/// Why a value cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join("; "))]
pub struct Doubt {
    /// One sentence for each figure that could not be told.
    pub reasons: Vec<SafeText>,
}
