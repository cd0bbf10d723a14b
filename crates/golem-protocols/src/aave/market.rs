//! Reads of a market at one block: its reserves, and an account's supplies and debts. All amounts and sums are the
//! contracts' own answers.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::DynProvider;

use super::position::{AccountSums, ReservePosition};
use super::reserve::ReserveState;
use bardo_abi::aave::{AaveAddressesProvider, AaveBalance, AaveOracle, AavePool};
use bardo_base::text::SafeText;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::ProviderError;

/// Decimals of the base currency's dollar.
pub const BASE_DECIMALS: u8 = 8;

/// Reserves of a market at most: the pool counts them in bits of one word.
pub(super) const MOST_RESERVES: usize = 128;

/// Contracts of a market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketContracts {
    /// Pool that lends and borrows.
    pub pool: Address,
    /// Registry of the market's contracts.
    pub provider: Address,
    /// Multicall3, which batches the reads.
    pub multicall: Address,
}

/// Reason why a market cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MarketError {
    /// The chain did not answer.
    #[error(transparent)]
    Chain(#[from] ProviderError),
    /// The market's contracts do not fit each other or the address book.
    #[error("the lending market cannot be read: {0}")]
    Unreadable(SafeText),
}

impl MarketError {
    pub(super) fn unreadable(what: &str) -> Self {
        Self::Unreadable(SafeText::clean(what, 200))
    }
}

/// State of a market at one block, with one account's position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketState {
    /// Account that the positions belong to.
    pub account: Address,
    /// The account's positions, also empty ones, in the pool's order of reserves.
    pub positions: Vec<ReservePosition>,
    /// The account's sums as the pool computes them; `None` while the market's oracle has no price of one of its tokens.
    pub sums: Option<AccountSums>,
    /// Category (e-mode) that the account chose; zero for none. In a category, other thresholds hold than the reserves'.
    pub category: u64,
    /// Contracts that reward supplies and debts, which note each change of a balance.
    pub rewards: Vec<Address>,
    /// Oracle of the market.
    pub oracle: Address,
}

/// Totals of a reserve, in raw units of its asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveTotals {
    /// All supplies with interest.
    pub supplied: U256,
    /// All debts with interest.
    pub borrowed: U256,
    /// Amount that can be withdrawn or borrowed now.
    pub available: U256,
}

impl MarketContracts {
    /// Contracts of a network; the missing one as error.
    ///
    /// # Errors
    /// The contract that the address book does not have.
    pub fn of(network: &Network) -> Result<Self, KnownContract> {
        let contract = |known| network.book.contract(known).ok_or(known);
        Ok(Self {
            pool: contract(KnownContract::AavePool)?,
            provider: contract(KnownContract::AaveAddressesProvider)?,
            multicall: contract(KnownContract::Multicall3)?,
        })
    }

    /// Returns the reserves at `block`, in the pool's order. Three round trips. Name the block by its hash.
    ///
    /// # Errors
    /// [`MarketError`] also where the registry names another pool than the address book, or the market does not count in
    /// dollars with eight decimals.
    pub async fn reserves(&self, provider: &DynProvider, block: BlockId) -> Result<Vec<ReserveState>, MarketError> {
        Ok(self.listed(provider, block).await?.0)
    }

    /// Reserves as [`Self::reserves`] returns them, and the oracle of their prices.
    async fn listed(
        &self,
        provider: &DynProvider,
        block: BlockId,
    ) -> Result<(Vec<ReserveState>, Address), MarketError> {
        let mut calls = CallBatch::default();
        let listed = calls.push(self.pool, &AavePool::getReservesListCall {});
        let pool = calls.push(self.provider, &AaveAddressesProvider::getPoolCall {});
        let oracle = calls.push(self.provider, &AaveAddressesProvider::getPriceOracleCall {});
        let answers = calls.send(provider, self.multicall, block).await?;
        let silent = || MarketError::unreadable("its contracts do not answer");
        if pool.take(&answers) != Some(self.pool) {
            return Err(MarketError::unreadable("its registry names another pool than the address book"));
        }
        let (listed, oracle) = (listed.take(&answers).ok_or_else(silent)?, oracle.take(&answers).ok_or_else(silent)?);
        if listed.len() > MOST_RESERVES {
            return Err(MarketError::unreadable("it lists more reserves than a pool can have"));
        }
        let mut calls = CallBatch::default();
        let unit = calls.push(oracle, &AaveOracle::BASE_CURRENCY_UNITCall {});
        let currency = calls.push(oracle, &AaveOracle::BASE_CURRENCYCall {});
        let asked: Vec<_> = listed
            .iter()
            .map(|asset| {
                let data = calls.push(self.pool, &AavePool::getReserveDataCall { asset: *asset });
                (*asset, data, calls.push(oracle, &AaveOracle::getAssetPriceCall { asset: *asset }))
            })
            .collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        let dollar = U256::from(10).pow(U256::from(BASE_DECIMALS));
        if unit.take(&answers) != Some(dollar) || currency.take(&answers) != Some(Address::ZERO) {
            return Err(MarketError::unreadable("it does not count in dollars with eight decimals"));
        }
        let reserves = asked.into_iter().filter_map(|(asset, data, price)| {
            // A dropped reserve leaves the zero address in the list.
            if asset.is_zero() {
                return None;
            }
            // Without a price the pool refuses to lend against the asset, and its value counts as zero.
            let price = price.take(&answers).unwrap_or_default();
            Some(data.take(&answers).map(|data| ReserveState::of(asset, &data, price)).ok_or_else(silent))
        });
        Ok((reserves.collect::<Result<_, _>>()?, oracle))
    }

    /// Returns the totals of reserves at `block`, in their order and in one round trip.
    ///
    /// # Errors
    /// [`MarketError`]
    pub async fn totals(
        &self,
        provider: &DynProvider,
        reserves: &[ReserveState],
        block: BlockId,
    ) -> Result<Vec<ReserveTotals>, MarketError> {
        let mut calls = CallBatch::default();
        let asked: Vec<_> = reserves
            .iter()
            .map(|one| {
                (
                    calls.push(one.a_token, &AaveBalance::totalSupplyCall {}),
                    calls.push(one.debt_token, &AaveBalance::totalSupplyCall {}),
                    calls.push(one.asset, &AaveBalance::balanceOfCall { user: one.a_token }),
                )
            })
            .collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        let silent = || MarketError::unreadable("a token of its reserves does not answer");
        let totals = asked.into_iter().map(|(supplied, borrowed, available)| {
            Ok(ReserveTotals {
                supplied: supplied.take(&answers).ok_or_else(silent)?,
                borrowed: borrowed.take(&answers).ok_or_else(silent)?,
                available: available.take(&answers).ok_or_else(silent)?,
            })
        });
        totals.collect()
    }

    /// Returns the whole market at `block` with an account's position. Three round trips. Name the block by its hash.
    ///
    /// # Errors
    /// [`MarketError`], as for [`Self::reserves`].
    pub async fn state(
        &self,
        provider: &DynProvider,
        account: Address,
        block: BlockId,
    ) -> Result<MarketState, MarketError> {
        let (reserves, oracle) = self.listed(provider, block).await?;
        let mut calls = CallBatch::default();
        let bits = calls.push(self.pool, &AavePool::getUserConfigurationCall { user: account });
        let category = calls.push(self.pool, &AavePool::getUserEModeCall { user: account });
        let sums = calls.push(self.pool, &AavePool::getUserAccountDataCall { user: account });
        let balances: Vec<_> = reserves
            .iter()
            .map(|one| {
                [one.a_token, one.debt_token].map(|token| {
                    (
                        calls.push(token, &AaveBalance::balanceOfCall { user: account }),
                        calls.push(token, &AaveBalance::getIncentivesControllerCall {}),
                    )
                })
            })
            .collect();
        let answers = calls.send(provider, self.multicall, block).await?;
        let silent = || MarketError::unreadable("its pool does not describe the account");
        let bits = bits.take(&answers).ok_or_else(silent)?;
        // They need every price that the oracle has for the account. Supplies and debts themselves do not.
        let sums = sums.take(&answers).map(|found| AccountSums {
            collateral: found.totalCollateralBase,
            debt: found.totalDebtBase,
            available: found.availableBorrowsBase,
            threshold: found.currentLiquidationThreshold,
            ltv: found.ltv,
            health: found.healthFactor,
        });
        let category = category.take(&answers).ok_or_else(silent)?.saturating_to();
        let (mut positions, mut rewards) = (Vec::with_capacity(reserves.len()), Vec::new());
        for (reserve, asked) in reserves.into_iter().zip(balances) {
            let [(supplied, first), (debt, second)] = asked;
            // Two bits for each reserve: borrowed, used as collateral.
            let is_collateral = bits.bit(usize::from(reserve.id).saturating_mul(2).saturating_add(1));
            positions.push(ReservePosition {
                reserve,
                supplied: supplied.take(&answers).ok_or_else(silent)?,
                debt: debt.take(&answers).ok_or_else(silent)?,
                is_collateral,
            });
            for rewarding in [first, second].iter().filter_map(|asked| asked.take(&answers)) {
                if !rewarding.is_zero() && !rewards.contains(&rewarding) {
                    rewards.push(rewarding);
                }
            }
        }
        Ok(MarketState { account, positions, sums, category, rewards, oracle })
    }
}

impl MarketState {
    /// Position in the reserve of `asset`; `None` if the market does not have it.
    pub fn of(&self, asset: Address) -> Option<&ReservePosition> {
        self.positions.iter().find(|one| one.reserve.asset == asset)
    }
}
