//! Fee estimation from recent blocks ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)), bounded by the caller's
//! cap. Fees are in wei per unit of gas.
//!
//! Endpoints' answers about fees are not trusted: nothing above the cap is paid. Since the cap itself derives from such
//! answers, all endpoints are queried, and the lowest tip counts. A tip that is too low is raised later, while one that
//! is too high is lost. No tip exceeds [`FeeRules::most_tip`], or the base fee if that is higher.
//!
//! A base fee that is too low would leave a signed transaction waiting. With several endpoints, the base fee therefore
//! has a lower bound that follows from the latest header on which they agree.

use alloy::consensus::BlockHeader as _;
use alloy::eips::BlockNumberOrTag;
use alloy::eips::eip1559::BaseFeeParams;
use alloy::primitives::U128;
use alloy::providers::Provider as _;
use serde::Deserialize;

use crate::provider::{ChainClient, ProviderError};

/// Fees of a transaction, or caps for them, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxFees {
    /// Maximum total fee, including the base fee.
    pub max_fee_per_gas: u128,
    /// Maximum priority fee, paid to the block producer.
    pub max_priority_fee_per_gas: u128,
}

/// Settings of the fee estimation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeRules {
    /// Number of recent blocks.
    pub blocks: u16,
    /// Percentile of the priority fees in a block, 0 to 100.
    pub percentile: u8,
    /// Lower bound of the tip.
    pub least_tip: u128,
    /// Upper bound of the tip, unless the base fee is higher.
    pub most_tip: u128,
}

impl Default for FeeRules {
    fn default() -> Self {
        // Polygon's nodes require at least 30 gwei, more than is usual on any other supported chain.
        Self { blocks: 20, percentile: 50, least_tip: 2_000_000, most_tip: 30_000_000_000 }
    }
}

/// Estimated fees of the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeQuote {
    /// Base fee of the next block.
    pub base_fee: u128,
    /// Usual priority fee in recent blocks.
    pub tip: u128,
}

/// Error of the fee estimation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeeError {
    /// The chain requires more than the cap allows.
    #[error("gas now costs {needed} wei per unit, above the cap of {cap}: wait until it is cheaper, or raise the cap")]
    AboveCap {
        /// Lowest sufficient fee.
        needed: u128,
        /// The cap on that fee.
        cap: u128,
    },
    /// The endpoint's fee history is not usable.
    #[error("the endpoint's fee history cannot be used: {0}")]
    InvalidHistory(&'static str),
    /// Failure of the chain request.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// The used members of the `eth_feeHistory` result; the ratios are floats and are not read.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FeeHistory {
    base_fee_per_gas: Vec<U128>,
    #[serde(default)]
    reward: Vec<Vec<U128>>,
}

/// Estimates the fees of the next block.
///
/// # Errors
/// [`FeeError::Provider`], or [`FeeError::InvalidHistory`] for a fee history that is not usable.
pub async fn estimate(client: &ChainClient, rules: FeeRules) -> Result<FeeQuote, FeeError> {
    let params = (format!("{:#x}", rules.blocks), "latest", [rules.percentile.min(100)]);
    let (answers, floor) =
        futures::join!(client.ask_each::<FeeHistory>("eth_feeHistory", params), agreed_base_fee(client));
    let quotes = answers.into_iter().map(|answer| FeeQuote::from_history(answer?, rules));
    FeeQuote::of_all(quotes.collect(), rules, floor)
}

/// Next base fee computed from the latest header on which the endpoints agree, by Ethereum's parameters of EIP-1559; a
/// rollup's base fee falls no faster. `None` with one endpoint, or if they agree on no header.
async fn agreed_base_fee(client: &ChainClient) -> Option<u128> {
    if !client.has_several_endpoints() {
        return None;
    }
    let provider = client.agreed();
    let head = provider.get_block_by_number(BlockNumberOrTag::Latest).await.ok()??.header.hash;
    // The latest block may be one endpoint's claim; reading it by hash confirms it with the others.
    let header = provider.get_block_by_hash(head).await.ok()??.header;
    header.next_block_base_fee(BaseFeeParams::ethereum()).map(u128::from)
}

impl FeeQuote {
    /// Combines the quotes of several endpoints: the lowest tip and the lower median of the base fees, or `floor` if
    /// that is higher. A transaction pays the block's base fee, so an estimate only has to be high enough.
    fn of_all(told: Vec<Result<Self, FeeError>>, rules: FeeRules, floor: Option<u128>) -> Result<Self, FeeError> {
        let mut quotes = Vec::new();
        let mut refused = FeeError::InvalidHistory("no endpoint was queried");
        for one in told {
            match one {
                Ok(quote) => quotes.push(quote),
                Err(error) => refused = error,
            }
        }
        let mut bases: Vec<u128> = quotes.iter().map(|quote| quote.base_fee).collect();
        bases.sort_unstable();
        let middle = bases.get(bases.len().saturating_sub(1) / 2).copied();
        let tip = quotes.iter().map(|quote| quote.tip).min();
        let (Some(base_fee), Some(tip), Some(lowest)) = (middle, tip, bases.first()) else { return Err(refused) };
        let base_fee = floor.map_or(base_fee, |floor| base_fee.max(floor));
        Ok(Self { base_fee, tip: tip.min(rules.most_tip.max(*lowest)) })
    }

    fn from_history(history: FeeHistory, rules: FeeRules) -> Result<Self, FeeError> {
        // There is one more base fee than blocks; the last one is the next block's.
        let base_fee = history.base_fee_per_gas.last().ok_or(FeeError::InvalidHistory("it has no base fee"))?.to();
        // An empty block reports zero, which is not a price.
        let mut tips: Vec<u128> =
            history.reward.iter().filter_map(|paid| paid.first()).map(|tip| tip.to()).filter(|tip| *tip > 0).collect();
        tips.sort_unstable();
        let median = tips.get(tips.len() / 2).copied().unwrap_or_default();
        Ok(Self { base_fee, tip: median.max(rules.least_tip) })
    }

    /// Fees for the next blocks within `cap`: the tip plus twice the base fee, which suffices for the next five blocks
    /// even if all of them are full (1.125^5 = 1.80).
    ///
    /// # Errors
    /// [`FeeError::AboveCap`] if the cap does not cover the rise of the base fee by one full block.
    pub fn within(self, cap: TxFees) -> Result<TxFees, FeeError> {
        let tip = self.tip.min(cap.max_priority_fee_per_gas);
        // A full block raises the base fee by an eighth.
        let next = self.base_fee.saturating_add(self.base_fee.div_ceil(8));
        let needed = next.saturating_add(tip);
        if needed > cap.max_fee_per_gas {
            return Err(FeeError::AboveCap { needed, cap: cap.max_fee_per_gas });
        }
        let wished = self.base_fee.saturating_mul(2).saturating_add(tip);
        Ok(TxFees { max_fee_per_gas: wished.min(cap.max_fee_per_gas), max_priority_fee_per_gas: tip })
    }

    /// Fees within `cap` for a replacement of a transaction with the fees `old`. Both exceed the old ones by at least
    /// an eighth (nodes require a tenth) and suffice for the next block.
    ///
    /// # Errors
    /// [`FeeError::AboveCap`] if `cap` is lower.
    pub fn outbidding(self, old: TxFees, cap: TxFees) -> Result<TxFees, FeeError> {
        let raised = |fee: u128| fee.saturating_add(fee.div_ceil(8)).max(fee.saturating_add(1));
        let tip = raised(old.max_priority_fee_per_gas).max(self.tip.min(cap.max_priority_fee_per_gas));
        if tip > cap.max_priority_fee_per_gas {
            return Err(FeeError::AboveCap { needed: tip, cap: cap.max_priority_fee_per_gas });
        }
        let least = raised(old.max_fee_per_gas).max(tip);
        let next = self.base_fee.saturating_add(self.base_fee.div_ceil(8)).saturating_add(tip);
        if least.max(next) > cap.max_fee_per_gas {
            return Err(FeeError::AboveCap { needed: least.max(next), cap: cap.max_fee_per_gas });
        }
        let wished = self.base_fee.saturating_mul(2).saturating_add(tip).max(least);
        Ok(TxFees { max_fee_per_gas: wished.min(cap.max_fee_per_gas), max_priority_fee_per_gas: tip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GWEI: u128 = 1_000_000_000;

    fn history(base: &[u128], tips: &[u128]) -> FeeHistory {
        FeeHistory {
            base_fee_per_gas: base.iter().map(|fee| U128::from(*fee)).collect(),
            reward: tips.iter().map(|tip| vec![U128::from(*tip)]).collect(),
        }
    }

    #[test]
    fn the_last_base_fee_and_the_median_of_non_zero_tips_count() {
        let rules = FeeRules { least_tip: 5, ..FeeRules::default() };
        let quote = FeeQuote::from_history(history(&[10, 20, 30], &[0, 7, 0, 9, 100]), rules).unwrap();
        assert_eq!(quote, FeeQuote { base_fee: 30, tip: 9 });
        let quiet = FeeQuote::from_history(history(&[30], &[0, 0]), rules).unwrap();
        assert_eq!(quiet.tip, 5, "nobody paid anything: the least");
        assert!(FeeQuote::from_history(history(&[], &[1]), rules).is_err());
    }

    #[test]
    fn the_lowest_tip_counts_up_to_a_ceiling() {
        let rules = FeeRules::default();
        let quote = |base, tip| Ok(FeeQuote { base_fee: base * GWEI, tip: tip * GWEI });
        let all = |told: Vec<Result<FeeQuote, FeeError>>| FeeQuote::of_all(told, rules, None).ok();
        // An endpoint that colludes with block producers, and one with an unusable answer.
        let invalid = Err(FeeError::InvalidHistory("it has no base fee"));
        let told = all(vec![quote(500, 130), quote(20, 1), invalid.clone(), quote(21, 2)]);
        assert_eq!(told, Some(FeeQuote { base_fee: 21 * GWEI, tip: GWEI }));
        assert_eq!(all(vec![quote(500, 130), quote(20, 1)]), Some(FeeQuote { base_fee: 20 * GWEI, tip: GWEI }));
        // If all endpoints claim high tips, a ceiling applies; it rises with the lowest base fee.
        assert_eq!(all(vec![quote(20, 130)]), Some(FeeQuote { base_fee: 20 * GWEI, tip: 30 * GWEI }));
        assert_eq!(all(vec![quote(900, 130), quote(20, 130)]).map(|quote| quote.tip), Some(30 * GWEI));
        assert_eq!(all(vec![quote(90, 130)]), Some(FeeQuote { base_fee: 90 * GWEI, tip: 90 * GWEI }));
        assert_eq!(FeeQuote::of_all(vec![invalid.clone()], rules, None), invalid);
    }

    #[test]
    fn no_base_fee_counts_below_the_one_of_the_agreed_header() {
        let rules = FeeRules::default();
        let quote = |base, tip| Ok(FeeQuote { base_fee: base, tip });
        let with = |floor| FeeQuote::of_all(vec![quote(1, GWEI), quote(20 * GWEI, GWEI)], rules, floor);
        assert_eq!(with(None).map(|quote| quote.base_fee), Ok(1));
        assert_eq!(with(Some(18 * GWEI)), Ok(FeeQuote { base_fee: 18 * GWEI, tip: GWEI }));
        let both = FeeQuote::of_all(vec![quote(20 * GWEI, GWEI), quote(21 * GWEI, GWEI)], rules, Some(18 * GWEI));
        assert_eq!(both.map(|quote| quote.base_fee), Ok(20 * GWEI));
    }

    #[test]
    fn an_absurd_claim_is_refused_and_not_paid() {
        let cap = TxFees { max_fee_per_gas: 100 * GWEI, max_priority_fee_per_gas: 3 * GWEI };
        let fair = FeeQuote { base_fee: 20 * GWEI, tip: GWEI };
        assert_eq!(fair.within(cap), Ok(TxFees { max_fee_per_gas: 41 * GWEI, max_priority_fee_per_gas: GWEI }));
        let greedy = FeeQuote { base_fee: 20 * GWEI, tip: 1_000 * GWEI };
        assert_eq!(greedy.within(cap).unwrap().max_priority_fee_per_gas, 3 * GWEI);
        let absurd = FeeQuote { base_fee: u128::MAX, tip: u128::MAX };
        assert!(matches!(absurd.within(cap), Err(FeeError::AboveCap { .. })));
        assert!(matches!(absurd.outbidding(fair.within(cap).unwrap(), cap), Err(FeeError::AboveCap { .. })));
    }

    #[test]
    fn a_replacement_pays_enough_for_every_node() {
        let cap = TxFees { max_fee_per_gas: 200 * GWEI, max_priority_fee_per_gas: 9 * GWEI };
        let old = TxFees { max_fee_per_gas: 41 * GWEI, max_priority_fee_per_gas: GWEI };
        let quiet = FeeQuote { base_fee: GWEI, tip: 1 };
        let new = quiet.outbidding(old, cap).unwrap();
        // go-ethereum requires at least 110 % of both old fees.
        assert!(new.max_fee_per_gas * 100 >= old.max_fee_per_gas * 110, "{new:?}");
        assert!(new.max_priority_fee_per_gas * 100 >= old.max_priority_fee_per_gas * 110, "{new:?}");
        let tight = TxFees { max_fee_per_gas: 44 * GWEI, ..cap };
        assert!(quiet.outbidding(old, tight).is_err(), "the cap holds for replacements too");
    }

    proptest! {
        #[test]
        fn no_fee_is_ever_above_its_cap(base in 0..u128::MAX, tip in 0..u128::MAX, cap in 1..u128::MAX, cap_tip in 0..u128::MAX, old in 0..u128::MAX) {
            let cap = TxFees { max_fee_per_gas: cap, max_priority_fee_per_gas: cap_tip.min(cap) };
            let quote = FeeQuote { base_fee: base, tip };
            let old = TxFees { max_fee_per_gas: old, max_priority_fee_per_gas: old / 2 };
            for fees in [quote.within(cap), quote.outbidding(old, cap)].into_iter().flatten() {
                prop_assert!(fees.max_fee_per_gas <= cap.max_fee_per_gas);
                prop_assert!(fees.max_priority_fee_per_gas <= cap.max_priority_fee_per_gas);
                prop_assert!(fees.max_priority_fee_per_gas <= fees.max_fee_per_gas);
                prop_assert!(fees.max_fee_per_gas >= base);
            }
        }
    }
}
