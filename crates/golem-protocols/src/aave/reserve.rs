//! Reserve of the pool: its configuration, and its state at one block.

use alloy::primitives::{Address, U256};

use super::math::{OutOfRange, compounded_interest, linear_interest, ray_mul};
use bardo_abi::aave::AaveReserveData;

/// Configuration of a reserve, from the bits of `ReserveConfiguration` in aave-v3-core. Shares are in basis points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveConfig {
    /// Share of a supply's value that can be borrowed against it.
    pub ltv: u32,
    /// Share of a supply's value from which a debt against it is liquidated; zero for an asset that cannot secure debts.
    pub threshold: u32,
    /// Share of a debt's value that a liquidator receives for repaying it, above 10,000.
    pub bonus: u32,
    /// Decimals of the asset.
    pub decimals: u8,
    /// True if the reserve is in use.
    pub active: bool,
    /// True if nothing more can be supplied or borrowed.
    pub frozen: bool,
    /// True if the asset can be borrowed.
    pub borrowing: bool,
    /// True if nothing at all can be done.
    pub paused: bool,
    /// Share of the interest that the protocol keeps.
    pub factor: u32,
    /// Maximum debt in whole tokens; zero for no limit.
    pub borrow_cap: u64,
    /// Maximum supply in whole tokens; zero for no limit.
    pub supply_cap: u64,
    /// Maximum debt against this asset alone; above zero for an asset that isolates its supplier.
    pub debt_ceiling: u64,
}

impl ReserveConfig {
    /// Decodes the configuration's word.
    pub fn decode(word: U256) -> Self {
        let bits = |from: usize, count: usize| {
            let mask = (U256::ONE << count) - U256::ONE;
            // At most 40 bits.
            ((word >> from) & mask).saturating_to::<u64>()
        };
        let share = |from| u32::try_from(bits(from, 16)).unwrap_or(u32::MAX);
        Self {
            ltv: share(0),
            threshold: share(16),
            bonus: share(32),
            decimals: u8::try_from(bits(48, 8)).unwrap_or(u8::MAX),
            active: word.bit(56),
            frozen: word.bit(57),
            borrowing: word.bit(58),
            paused: word.bit(60),
            factor: share(64),
            borrow_cap: bits(80, 36),
            supply_cap: bits(116, 36),
            debt_ceiling: bits(212, 40),
        }
    }
}

/// State of a reserve at one block. Indexes and yearly rates are rays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveState {
    /// Token that is supplied and borrowed.
    pub asset: Address,
    /// Number of the reserve in the bits of an account.
    pub id: u16,
    /// Configuration of the reserve.
    pub config: ReserveConfig,
    /// Token that stands for supplies.
    pub a_token: Address,
    /// Token that stands for debts at the variable rate.
    pub debt_token: Address,
    /// Growth of a supply since the market opened, at `updated`.
    pub liquidity_index: U256,
    /// Growth of a debt since the market opened, at `updated`.
    pub debt_index: U256,
    /// Rate that supplies earn.
    pub supply_rate: U256,
    /// Rate that debts pay.
    pub debt_rate: U256,
    /// Time of the last change, in seconds since the Unix epoch.
    pub updated: u64,
    /// Price of one whole token in the oracle's base currency.
    pub price: U256,
}

impl ReserveState {
    /// Reserve from the pool's and the oracle's answers.
    pub fn of(asset: Address, data: &AaveReserveData, price: U256) -> Self {
        Self {
            asset,
            id: data.id,
            config: ReserveConfig::decode(data.configuration),
            a_token: data.aTokenAddress,
            debt_token: data.variableDebtTokenAddress,
            liquidity_index: U256::from(data.liquidityIndex),
            debt_index: U256::from(data.variableBorrowIndex),
            supply_rate: U256::from(data.currentLiquidityRate),
            debt_rate: U256::from(data.currentVariableBorrowRate),
            updated: data.lastUpdateTimestamp.to(),
            price,
        }
    }

    /// Growth of a supply at `time`, in seconds since the Unix epoch: `getReserveNormalizedIncome`.
    ///
    /// # Errors
    /// [`OutOfRange`]
    pub fn income(&self, time: u64) -> Result<U256, OutOfRange> {
        match time.saturating_sub(self.updated) {
            0 => Ok(self.liquidity_index),
            seconds => ray_mul(linear_interest(self.supply_rate, seconds)?, self.liquidity_index),
        }
    }

    /// Growth of a debt at `time`, in seconds since the Unix epoch: `getReserveNormalizedVariableDebt`.
    ///
    /// # Errors
    /// [`OutOfRange`]
    pub fn debt_growth(&self, time: u64) -> Result<U256, OutOfRange> {
        match time.saturating_sub(self.updated) {
            0 => Ok(self.debt_index),
            seconds => ray_mul(compounded_interest(self.debt_rate, seconds)?, self.debt_index),
        }
    }
}
