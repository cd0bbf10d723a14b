//! Price model of the market: a pure function of seed, age and block. A chain that is rolled back or advanced in time
//! therefore has the same market, and both chains agree. Prices depend on the market's age and not on the time of day,
//! so results do not depend on the clock.
//!
//! Not here: trading (see `market`) and price feeds (see `keeper`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use alloy::primitives::keccak256;

/// An asset with a dollar price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PricedAsset {
    /// Ether, wrapped or native.
    Eth,
    /// Bitcoin, as WBTC.
    Btc,
    /// The UNI token.
    Uni,
    /// The LINK token.
    Link,
    /// USDC: the unit of account, always one dollar unless shocked.
    Usdc,
    /// The USDT stablecoin.
    Usdt,
    /// The DAI stablecoin.
    Dai,
    /// The bad tokens, always one dollar unless shocked.
    Curio,
}

/// A dollar price with eight decimals, as in price feeds.
pub type PriceE8 = u128;

/// One dollar as a [`PriceE8`].
pub const DOLLAR: PriceE8 = 100_000_000;

/// Unit of deviations and factors: parts per billion.
const BILLION: i128 = 1_000_000_000;

/// Components of the price noise: period in seconds, amplitude in parts per billion. Their sum is ± 0.8 %.
const WAVES: [(u64, i128); 3] = [(900, 5_000_000), (240, 2_000_000), (60, 1_000_000)];

/// Divisor of a stablecoin's amplitude.
const STABLE_DIVISOR: i128 = 40;

impl PricedAsset {
    /// All assets, in the order of their discriminants.
    pub const ALL: [Self; 8] =
        [Self::Eth, Self::Btc, Self::Uni, Self::Link, Self::Usdc, Self::Usdt, Self::Dai, Self::Curio];

    /// All assets that have a price feed.
    pub const FED: [Self; 7] = [Self::Eth, Self::Btc, Self::Uni, Self::Link, Self::Usdc, Self::Usdt, Self::Dai];

    /// Price around which the market fluctuates.
    pub const fn anchor(self) -> PriceE8 {
        match self {
            Self::Eth => 3_400 * DOLLAR,
            Self::Btc => 68_000 * DOLLAR,
            Self::Uni => 785_000_000,
            Self::Link => 17 * DOLLAR,
            Self::Usdc | Self::Usdt | Self::Dai | Self::Curio => DOLLAR,
        }
    }

    /// Ticker symbol of the asset.
    pub const fn ticker(self) -> &'static str {
        match self {
            Self::Eth => "ETH",
            Self::Btc => "BTC",
            Self::Uni => "UNI",
            Self::Link => "LINK",
            Self::Usdc => "USDC",
            Self::Usdt => "USDT",
            Self::Dai => "DAI",
            Self::Curio => "CURIO",
        }
    }

    /// Amplitude of this asset for a wave of `amplitude`, in parts per billion.
    const fn swing(self, amplitude: i128) -> i128 {
        match self {
            Self::Eth | Self::Btc | Self::Uni | Self::Link => amplitude,
            Self::Usdt | Self::Dai => amplitude / STABLE_DIVISOR,
            Self::Usdc | Self::Curio => 0,
        }
    }
}

/// A price change that starts at a block, in addition to the market's fluctuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceShock {
    /// The affected asset; `None` for all except stablecoins and bad tokens.
    pub asset: Option<PricedAsset>,
    /// Change in parts per million of the price: −300 000 is a fall of 30 %.
    pub parts_per_million: i32,
    /// First affected block.
    pub from_block: u64,
    /// Number of blocks until the change is complete.
    pub blocks: u64,
    /// True if the change is undone again over as many blocks.
    pub passes: bool,
}

impl PriceShock {
    fn touches(&self, asset: PricedAsset) -> bool {
        match self.asset {
            Some(only) => only == asset,
            None => matches!(asset, PricedAsset::Eth | PricedAsset::Btc | PricedAsset::Uni | PricedAsset::Link),
        }
    }

    /// Factor on the price at `block`, in parts per billion. At least a hundredth.
    fn factor(&self, block: u64) -> i128 {
        let Some(since) = block.checked_sub(self.from_block) else { return BILLION };
        let length = self.blocks.max(1);
        let reached = (since.saturating_add(1)).min(length);
        let felt = if self.passes { reached.saturating_sub(since.saturating_sub(length)) } else { reached };
        let push = i128::from(self.parts_per_million) * 1_000 * i128::from(felt) / i128::from(length);
        (BILLION + push).max(BILLION / 100)
    }
}

/// Prices of all assets at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetPrices([PriceE8; PricedAsset::ALL.len()]);

impl AssetPrices {
    /// All prices at `age` and `block`, around `anchors`; see [`price_at`].
    pub fn at(anchors: &Self, seed: u64, age: u64, block: u64, shocks: &[PriceShock]) -> Self {
        Self(PricedAsset::ALL.map(|asset| price_at(anchors, seed, asset, age, block, shocks)))
    }

    /// Prices given by asset; the devnet's anchor for an asset without one.
    pub fn of_assets(price: impl Fn(PricedAsset) -> Option<PriceE8>) -> Self {
        Self(PricedAsset::ALL.map(|asset| price(asset).unwrap_or(asset.anchor())))
    }

    /// Anchors around which a market of this seed starts at exactly these prices.
    pub fn anchors_of_start(&self, seed: u64) -> Self {
        Self(PricedAsset::ALL.map(|asset| {
            let start = self.of(asset).cast_signed() * BILLION;
            (start / (BILLION + deviation(seed, asset, 0))).max(1).cast_unsigned()
        }))
    }

    /// The anchor prices, independent of the seed.
    pub fn anchors() -> Self {
        Self(PricedAsset::ALL.map(PricedAsset::anchor))
    }

    /// Price of `asset`, in dollars with eight decimals.
    pub fn of(&self, asset: PricedAsset) -> PriceE8 {
        // ALL lists the assets in the order of their discriminants, one entry each, which a test checks.
        self.0[asset as usize]
    }
}

/// Price of `asset` around its anchor at `age` (seconds since the market began) and `block`, in dollars with eight
/// decimals.
pub fn price_at(
    anchors: &AssetPrices,
    seed: u64,
    asset: PricedAsset,
    age: u64,
    block: u64,
    shocks: &[PriceShock],
) -> PriceE8 {
    let start = anchors.of(asset).cast_signed() * (BILLION + deviation(seed, asset, age)) / BILLION;
    let shocked = shocks
        .iter()
        .filter(|shock| shock.touches(asset))
        .fold(start, |price, shock| price * shock.factor(block) / BILLION);
    shocked.max(1).cast_unsigned()
}

/// Deviation of an asset's price from its anchor, in parts per billion.
fn deviation(seed: u64, asset: PricedAsset, age: u64) -> i128 {
    let waves = WAVES.iter().enumerate();
    waves
        .map(|(number, (length, amplitude))| {
            asset.swing(*amplitude) * wave(seed, asset, number, *length, age) / BILLION
        })
        .sum()
}

/// Smooth noise between ± one billion: random values at multiples of `length` seconds, with eased interpolation.
fn wave(seed: u64, asset: PricedAsset, number: usize, length: u64, age: u64) -> i128 {
    let step = age / length;
    let from = known_lattice(seed, asset, number, step);
    let to = known_lattice(seed, asset, number, step + 1);
    let at = i128::from(age % length) * 1_000_000 / i128::from(length);
    let eased = at * at * (3_000_000 - 2 * at) / 1_000_000_000_000;
    from + (to - from) * eased / 1_000_000
}

thread_local! {
    /// Values of [`lattice`] by its arguments: consecutive blocks need the same ones.
    static LATTICE: RefCell<BTreeMap<(u64, PricedAsset, usize, u64), i128>> = const { RefCell::new(BTreeMap::new()) };
}

/// Maximum number of remembered values: those of all assets and waves, for several markets.
const MOST_REMEMBERED: usize = 1_024;

/// Like [`lattice`], which is computed once.
fn known_lattice(seed: u64, asset: PricedAsset, number: usize, step: u64) -> i128 {
    LATTICE.with_borrow_mut(|known| {
        if known.len() > MOST_REMEMBERED {
            known.clear();
        }
        *known.entry((seed, asset, number, step)).or_insert_with(|| lattice(seed, asset, number, step))
    })
}

fn lattice(seed: u64, asset: PricedAsset, number: usize, step: u64) -> i128 {
    let hash = keccak256(format!("{seed}/{}/{number}/{step}", asset.ticker()));
    let mut word = [0; 8];
    word.copy_from_slice(&hash[..8]);
    i128::from(u64::from_be_bytes(word)) * 2 * BILLION / i128::from(u64::MAX) - BILLION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price_at(seed: u64, asset: PricedAsset, age: u64, block: u64, shocks: &[PriceShock]) -> PriceE8 {
        super::price_at(&AssetPrices::anchors(), seed, asset, age, block, shocks)
    }

    const NOW: u64 = 7_200;

    #[test]
    fn prices_swing_within_their_band_and_do_swing() {
        for asset in [PricedAsset::Eth, PricedAsset::Btc, PricedAsset::Uni, PricedAsset::Link] {
            let prices: Vec<_> = (0..7_200).map(|second| price_at(7, asset, NOW + second, 0, &[])).collect();
            let (low, high) = (*prices.iter().min().unwrap(), *prices.iter().max().unwrap());
            assert!(low >= asset.anchor() * 992 / 1000 - 1 && high <= asset.anchor() * 1008 / 1000, "{asset:?}");
            assert!(high - low > asset.anchor() * 4 / 1000, "{asset:?} hardly moves: {low}..{high}");
            // The price changes by less than 0.02 % per second.
            assert!(prices.windows(2).all(|pair| pair[0].abs_diff(pair[1]) < asset.anchor() / 5_000));
        }
        assert!((0..900).all(|second| price_at(7, PricedAsset::Usdc, NOW + second, 0, &[]) == DOLLAR));
    }

    #[test]
    fn prices_are_indexed_by_asset() {
        let prices = AssetPrices::at(&AssetPrices::anchors(), 7, NOW, 0, &[]);
        for (index, asset) in PricedAsset::ALL.into_iter().enumerate() {
            assert_eq!(asset as usize, index);
            assert_eq!(prices.of(asset), price_at(7, asset, NOW, 0, &[]));
        }
    }

    #[test]
    fn a_market_starts_at_the_prices_that_its_anchors_were_made_for() {
        let wanted = AssetPrices::of_assets(|asset| (asset == PricedAsset::Eth).then_some(298_765_432_100));
        for seed in 0..20 {
            let start = AssetPrices::at(&wanted.anchors_of_start(seed), seed, 0, 0, &[]);
            for asset in PricedAsset::ALL {
                // Two roundings of a unit in the last place each.
                assert!(start.of(asset).abs_diff(wanted.of(asset)) <= 2, "{seed} {asset:?}");
            }
        }
        assert_eq!(wanted.of(PricedAsset::Btc), PricedAsset::Btc.anchor());
    }

    #[test]
    fn prices_depend_on_the_seed_alone() {
        let path =
            |seed| (0..50).map(|step| price_at(seed, PricedAsset::Eth, NOW + 20 * step, 3, &[])).collect::<Vec<_>>();
        assert_eq!(path(1), path(1));
        assert_ne!(path(1), path(2));
    }

    #[test]
    fn a_crash_is_permanent_and_a_spike_passes() {
        let fall = PriceShock { asset: None, parts_per_million: -300_000, from_block: 100, blocks: 10, passes: false };
        let spike = PriceShock { asset: Some(PricedAsset::Uni), parts_per_million: 500_000, passes: true, ..fall };
        let plain = |asset| price_at(1, asset, NOW, 0, &[]);
        let eth = |block| price_at(1, PricedAsset::Eth, NOW, block, &[fall, spike]);
        assert_eq!(eth(99), plain(PricedAsset::Eth));
        assert_eq!(eth(104), plain(PricedAsset::Eth) * 85 / 100);
        assert_eq!(eth(109), plain(PricedAsset::Eth) * 70 / 100);
        assert_eq!(eth(9_999), plain(PricedAsset::Eth) * 70 / 100);
        let uni = |block| price_at(1, PricedAsset::Uni, NOW, block, &[spike]);
        assert_eq!(uni(109), plain(PricedAsset::Uni) * 150 / 100);
        assert_eq!(uni(9_999), plain(PricedAsset::Uni));
        assert_eq!(price_at(1, PricedAsset::Dai, NOW, 500, &[fall]), plain(PricedAsset::Dai));
    }
}
