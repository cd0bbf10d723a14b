//! Prices the operator wrote into the configuration, for test networks where no feed is live.

use super::{NoPrice, Price, PriceOrigin, PriceSource, Quoted};
use alloy::primitives::Address;
use bardo_base::{text::SafeText, units::Usd};
use futures::future::BoxFuture;
use std::collections::HashMap;

/// Fixed prices. Each is labelled so, and none exists for a network where money is real.
#[derive(Debug, Clone)]
pub struct FixedPrices(HashMap<Address, Usd>);

/// Why fixed prices are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FixedPriceError {
    /// On a real network a price that cannot move would pass every check while the market falls.
    #[error("fixed [prices] are for test networks only; chain {chain_id} is not one: remove them")]
    NotATestNetwork {
        /// The chain.
        chain_id: u64,
    },
    /// A token that the address book does not list.
    #[error(
        "fixed price for unknown token '{asked}' on {network}{}; use a listed symbol or an address",
        nearest.as_ref().map(|near| format!(": did you mean '{near}'?")).unwrap_or_default()
    )]
    UnknownToken {
        /// What was written.
        asked: SafeText,
        /// The network.
        network: String,
        /// The symbol most like it.
        nearest: Option<String>,
    },
    /// A price of nothing is no price.
    #[error("the fixed price of {token} is zero: give a price above zero or leave it out")]
    Zero {
        /// The token.
        token: Address,
    },
}

impl FixedPrices {
    /// Fixed prices by token for chain `chain_id`.
    ///
    /// # Errors
    /// If the network is not a test network, or a price is zero.
    pub fn new(
        chain_id: u64,
        is_test_network: bool,
        prices: impl IntoIterator<Item = (Address, Usd)>,
    ) -> Result<Self, FixedPriceError> {
        if !is_test_network {
            return Err(FixedPriceError::NotATestNetwork { chain_id });
        }
        let entry = |(token, usd): (Address, Usd)| {
            if usd.is_zero() { Err(FixedPriceError::Zero { token }) } else { Ok((token, usd)) }
        };
        prices.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }
}

impl PriceSource for FixedPrices {
    fn name(&self) -> &'static str {
        "fixed test prices"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<Quoted>> {
        let answer = |token: &Address| {
            let usd = *self.0.get(token).ok_or(NoPrice::UnknownToken)?;
            Ok(Price { usd, source: PriceOrigin::Fixed, observed_at: None, age: None })
        };
        Box::pin(std::future::ready(tokens.iter().map(answer).collect()))
    }
}
