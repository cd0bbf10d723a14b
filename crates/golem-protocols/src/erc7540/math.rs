//! Shares and tokens at a valuation, as vaults of Lagoon's interface compute them: with one virtual unit of the token, and with
//! as many virtual shares as one unit of the token is in the shares' eighteen decimals. Rounded down, in favour of the vault.

use alloy::primitives::{U256, U512};

/// Decimals of every such vault's shares.
pub const SHARE_DECIMALS: u8 = 18;

/// Valuation of a vault: what it is worth and how many shares that is, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Valuation {
    /// Worth of the vault by its manager, in units of its token.
    pub assets: U256,
    /// Supply of shares.
    pub shares: U256,
    /// Decimals of the token, at most eighteen.
    pub asset_decimals: u8,
}

impl Valuation {
    /// Virtual shares; `None` for a token with more than eighteen decimals.
    fn virtual_shares(&self) -> Option<U256> {
        let more = SHARE_DECIMALS.checked_sub(self.asset_decimals)?;
        U256::from(10).checked_pow(U256::from(more))
    }

    /// Shares for this amount of the token; `None` if it is out of range.
    pub fn shares_for(&self, assets: U256) -> Option<U256> {
        let shares = self.shares.checked_add(self.virtual_shares()?)?;
        scaled(assets, shares, self.assets.checked_add(U256::ONE)?)
    }

    /// Tokens for this number of shares; `None` if it is out of range.
    pub fn assets_for(&self, shares: U256) -> Option<U256> {
        let supply = self.shares.checked_add(self.virtual_shares()?)?;
        scaled(shares, self.assets.checked_add(U256::ONE)?, supply)
    }
}

/// `amount` times `numerator` by `denominator`, rounded down.
fn scaled(amount: U256, numerator: U256, denominator: U256) -> Option<U256> {
    let whole = (U512::from(amount) * U512::from(numerator)).checked_div(U512::from(denominator))?;
    (whole.bit_len() <= 256).then(|| whole.saturating_to())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 100 USDC in an empty vault are 100 shares of eighteen decimals. At a worth of 510 USDC for 500 shares, 51 USDC
    /// are a little less than 50 shares, by the virtual unit: 51e6 · (500e18 + 1e12) / (510e6 + 1), rounded down.
    #[test]
    fn shares_follow_from_the_valuation() {
        let usdc = |whole: u64| U256::from(whole) * U256::from(1_000_000);
        let unit = U256::from(10).pow(U256::from(18));
        let empty = Valuation { assets: U256::ZERO, shares: U256::ZERO, asset_decimals: 6 };
        assert_eq!(empty.shares_for(usdc(100)), Some(unit * U256::from(100)));
        assert_eq!(empty.assets_for(unit * U256::from(100)), Some(usdc(100)));
        let worth = Valuation { assets: usdc(510), shares: unit * U256::from(500), asset_decimals: 6 };
        assert_eq!(worth.shares_for(usdc(51)), Some(U256::from(50_000_000_001_960_784_309_u128)));
        assert_eq!(worth.assets_for(unit * U256::from(50)), Some(U256::from(50_999_999)));
        assert_eq!(Valuation { asset_decimals: 19, ..worth }.shares_for(usdc(1)), None);
        assert_eq!(Valuation { shares: U256::MAX, ..worth }.shares_for(usdc(1)), None);
        assert_eq!(worth.shares_for(U256::MAX), None);
    }
}
