//! Fixed prices from the configuration, for test networks without live feeds.

use super::{NoPrice, Price, PriceOrigin, PriceResult, PriceSource};
use alloy::primitives::Address;
use bardo_base::{text::SafeText, units::Usd};
use futures::future::BoxFuture;
use std::collections::HashMap;

/// Fixed prices by token; they are labelled as fixed and are refused on real networks.
#[derive(Debug, Clone)]
pub struct FixedPrices(HashMap<Address, Usd>);

/// Error for fixed prices that are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FixedPriceError {
    /// The network is not a test network. On a real network, a fixed price would pass every check while the market
    /// falls.
    #[error("fixed [prices] are for test networks only; chain {chain_id} is not one: remove them")]
    NotATestNetwork {
        /// EIP-155 id of the chain.
        chain_id: u64,
    },
    /// The token is neither on the network's list nor an address.
    #[error(
        "fixed price for unknown token '{asked}' on {network}{}; use a listed symbol or an address",
        nearest.as_ref().map(|near| format!(": did you mean '{near}'?")).unwrap_or_default()
    )]
    UnknownToken {
        /// The configured token name.
        asked: SafeText,
        /// Name of the network.
        network: String,
        /// The most similar listed symbol.
        nearest: Option<String>,
    },
    /// The fixed price is zero.
    #[error("the fixed price of {token} is zero: set a price above zero or remove it")]
    Zero {
        /// Address of the token.
        token: Address,
    },
}

impl FixedPrices {
    /// Creates fixed prices by token address for chain `chain_id`.
    ///
    /// # Errors
    /// [`FixedPriceError`] if the network is not a test network, or a price is zero.
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

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>> {
        let answer = |token: &Address| {
            let usd = *self.0.get(token).ok_or(NoPrice::UnknownToken)?;
            Ok(Price { usd, source: PriceOrigin::Fixed, observed_at: None, age: None })
        };
        Box::pin(std::future::ready(tokens.iter().map(answer).collect()))
    }
}
