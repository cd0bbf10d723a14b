//! Earnings of a managed vault in the lending market since its last valuation, by the market's own records.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256, U512};
use alloy::sol_types::SolEvent as _;

use super::Vault;
use crate::engine::{ConnectedChain, ToolEnvironment};
use crate::market::logs::{LogBudget, LogQuery, PlacedLog, read_backwards};
use bardo_abi::aave::{AaveBalance, AavePool};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::LagoonVault;
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_safety::vault_calls;
use golem_chain::multicall::CallBatch;
use golem_protocols::erc7540::requests::SettlerQuestions;

/// Maximum number of requests and of logs for one kind of event.
const REQUESTS: u32 = 24;
/// See [`REQUESTS`].
const LOGS: usize = 20_000;

/// Tokens of a vault that its Safe holds, in raw units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Earnings {
    /// Supply to the lending market with its interest.
    pub(super) supplied: U256,
    /// Interest since the vault's last valuation.
    pub(super) earned: U256,
    /// Balance of the wallet.
    wallet: U256,
    /// Worth of the account's other vaults of the token by their last valuations.
    pub(super) others: U256,
}

impl Earnings {
    /// Worth of the vault by its last valuation and its interest since then, and no more than the Safe holds: the market rounds down.
    pub(super) fn worth(&self, vault: &Vault) -> U256 {
        let last = vault.total_assets;
        last.saturating_add(self.of_vault(last)).min(self.wallet.saturating_add(self.supplied))
    }

    /// Interest of a vault with this last valuation: its part of what all vaults of the account's own are worth. No more than that can
    /// be supplied for them, and what more the account supplied earns for the account.
    pub(super) fn of_vault(&self, last: U256) -> U256 {
        let whole = self.principal().max(last.saturating_add(self.others));
        let share = U512::from(self.earned) * U512::from(last);
        share.checked_div(U512::from(whole)).map_or(U256::ZERO, |share| share.saturating_to())
    }

    /// Supply without the interest since the last valuation.
    fn principal(&self) -> U256 {
        self.supplied.saturating_sub(self.earned)
    }

    /// Part of the supply that is more than all vaults of the account's own are worth; `None` without one.
    pub(super) fn own_supply(&self, last: U256) -> Option<U256> {
        self.principal().checked_sub(last.saturating_add(self.others)).filter(|own| !own.is_zero())
    }

    /// Reads the supply at the vault's block. A network without a lending market, or without a reserve of the token, has none.
    ///
    /// # Errors
    /// `CHAIN_INCONSISTENT` if the market does not answer, or if the last valuation, the state of its block or the changes since then
    /// cannot be read; the provider's errors.
    pub(super) async fn read(
        world: &ToolEnvironment,
        chain: &ConnectedChain,
        vault: &Vault,
        account: Address,
    ) -> Result<Self, ToolError> {
        let silent = || inconsistent("the account's balances of the vault's token cannot be read");
        let mut calls = CallBatch::default();
        let wallet = calls.push(vault.asset_address, &Erc20::balanceOfCall { owner: account });
        let pool = chain.network().book.contract(KnownContract::AavePool);
        let reserve = pool.map(|pool| calls.push(pool, &AavePool::getReserveDataCall { asset: vault.asset_address }));
        let answers = chain.ask_at(calls, vault.head.hash).await?;
        let wallet = wallet.take(&answers).ok_or_else(silent)?;
        let others = others(world, chain, vault, account).await?;
        let unsupplied = Self { wallet, others, ..Self::default() };
        let Some(reserve) = reserve else { return Ok(unsupplied) };
        let receipt = reserve.take(&answers).ok_or_else(silent)?.aTokenAddress;
        if receipt.is_zero() {
            return Ok(unsupplied);
        }
        let mut calls = CallBatch::default();
        let supplied = calls.push(receipt, &AaveBalance::balanceOfCall { user: account });
        let answers = chain.ask_at(calls, vault.head.hash).await?;
        let supplied = supplied.take(&answers).ok_or_else(silent)?;
        // One that was never valued holds nothing, and has earned nothing.
        if vault.total_assets.is_zero() {
            return Ok(Self { supplied, ..unsupplied });
        }
        let base = before_valuation(chain, vault).await?;
        let then = supplied_at(chain, (receipt, account), base).await?;
        let [into, out] = moved(chain, (receipt, account), (base.saturating_add(1), vault.head.number)).await?;
        let earned = supplied.saturating_add(out).saturating_sub(then.saturating_add(into));
        Ok(Self { supplied, earned, ..unsupplied })
    }
}

fn inconsistent(what: &str) -> ToolError {
    ToolError::new(ErrorCode::ChainInconsistent, what)
}

/// Worth of the other known vaults of the vault's token whose Safe is the account, by their last valuations.
async fn others(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    vault: &Vault,
    account: Address,
) -> Result<U256, ToolError> {
    let network = chain.network();
    let policy = world.policy();
    let known = vault_calls::known(network.chain_id, policy.as_ref().map(|policy| policy.rules()), &network.book);
    let mut calls = CallBatch::default();
    let asked = known.into_iter().filter(|one| *one != vault.address).map(|one| {
        let asset = calls.push(one, &Erc4626::assetCall {});
        (asset, SettlerQuestions::push(&mut calls, one))
    });
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return Ok(U256::ZERO);
    }
    let answers = chain.ask_at(calls, vault.head.hash).await?;
    let own = asked.into_iter().filter(|(asset, _)| asset.take(&answers) == Some(vault.asset_address));
    let own = own.filter_map(|(_, settlers)| settlers.take(&answers)).filter(|settlers| settlers.safe == account);
    Ok(own.fold(U256::ZERO, |sum, settlers| sum.saturating_add(settlers.total_assets)))
}

/// Block before that in which the vault's last valuation was stated, which is about the block on which it was measured.
async fn before_valuation(chain: &ConnectedChain, vault: &Vault) -> Result<u64, ToolError> {
    let (stated, settled) =
        (LagoonVault::NewTotalAssetsUpdated::SIGNATURE_HASH, LagoonVault::TotalAssetsUpdated::SIGNATURE_HASH);
    let query = LogQuery {
        addresses: vec![vault.address],
        events: vec![stated, settled],
        first: None,
        second: None,
        third: None,
    };
    // The newest statement before the newest settlement.
    let found = |logs: &[PlacedLog]| {
        let is = |log: &PlacedLog, event: B256| log.log.topics().first() == Some(&event);
        let newest = logs.iter().rposition(|log| is(log, settled))?;
        logs.iter().take(newest).rfind(|log| is(log, stated)).map(|log| log.number)
    };
    let mut budget = LogBudget::new(REQUESTS, LOGS);
    let read = read_backwards(chain, &query, (0, vault.head.number), &mut budget, |logs| found(logs).is_some()).await?;
    let unknown = || {
        inconsistent(
            "the vault's last valuation is not in the logs that the endpoints return, so its interest since then is not known: \
             state new_total_assets",
        )
    };
    found(&read.logs).map(|block| block.saturating_sub(1)).ok_or_else(unknown)
}

/// Supply with its interest at the end of a past block.
async fn supplied_at(
    chain: &ConnectedChain,
    (receipt, account): (Address, Address),
    block: u64,
) -> Result<U256, ToolError> {
    let unknown = || {
        inconsistent(
            "no endpoint has the state of the vault's last valuation, so its interest since then is not known: state \
             new_total_assets",
        )
    };
    let multicall = chain.contract(KnownContract::Multicall3)?;
    let mut calls = CallBatch::default();
    let supplied = calls.push(receipt, &AaveBalance::balanceOfCall { user: account });
    let answers = calls.send(chain.client.agreed(), multicall, BlockId::number(block)).await.map_err(|_| unknown())?;
    supplied.take(&answers).ok_or_else(unknown)
}

/// Tokens that the account supplied and withdrew in these blocks, without interest.
async fn moved(
    chain: &ConnectedChain,
    (receipt, account): (Address, Address),
    (first, last): (u64, u64),
) -> Result<[U256; 2], ToolError> {
    if first > last {
        return Ok([U256::ZERO; 2]);
    }
    let of = Some(account.into_word());
    let mut sums = [U256::ZERO; 2];
    // The holder is the second argument of the one event, and the first of the other.
    let asks: [(B256, Option<B256>, Option<B256>); 2] =
        [(AaveBalance::Mint::SIGNATURE_HASH, None, of), (AaveBalance::Burn::SIGNATURE_HASH, of, None)];
    for (event, of_first, of_second) in asks {
        let query =
            LogQuery { addresses: vec![receipt], events: vec![event], first: of_first, second: of_second, third: None };
        let mut budget = LogBudget::new(REQUESTS, LOGS);
        let read = read_backwards(chain, &query, (first, last), &mut budget, |_| false).await?;
        if read.from > first {
            return Err(inconsistent(
                "the changes of the account's supply since the last valuation cannot all be read",
            ));
        }
        for log in &read.logs {
            let [into, out] = flows(log);
            sums = [sums[0].saturating_add(into), sums[1].saturating_add(out)];
        }
    }
    Ok(sums)
}

/// Tokens that came in and went out by a log. Both events carry the interest since the holder's last change, which the market adds to
/// what it mints and subtracts from what it burns; a withdrawal smaller than that mints.
fn flows(log: &PlacedLog) -> [U256; 2] {
    if let Ok(mint) = AaveBalance::Mint::decode_log(&log.log) {
        return [mint.value.saturating_sub(mint.balanceIncrease), mint.balanceIncrease.saturating_sub(mint.value)];
    }
    let burn = AaveBalance::Burn::decode_log(&log.log);
    [U256::ZERO, burn.map_or(U256::ZERO, |burn| burn.value.saturating_add(burn.balanceIncrease))]
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Log;

    use super::*;

    /// By hand: of 10 interest on 500, a vault of 500 or more has all, and one of 100 has a fifth. Beside another vault of 300, one of
    /// 700 has seven tenths of it, and the other one the rest.
    #[test]
    fn interest_is_parted_between_vaults_and_the_account() {
        let number = |raw: u64| U256::from(raw);
        let earnings = Earnings { supplied: number(510), earned: number(10), ..Earnings::default() };
        let of = |last| earnings.of_vault(number(last));
        assert_eq!([of(600), of(500), of(100), of(0)], [number(10), number(10), number(2), U256::ZERO]);
        assert_eq!([earnings.own_supply(number(500)), earnings.own_supply(number(100))], [None, Some(number(400))]);
        let beside = |others, last| Earnings { others: number(others), ..earnings }.of_vault(number(last));
        assert_eq!([beside(300, 700), beside(700, 300)], [number(7), number(3)]);
        assert_eq!(beside(100, 150), number(3), "the account's own 250 earn as well");
        let withdrawn = Earnings { supplied: U256::ZERO, ..earnings };
        assert_eq!(withdrawn.of_vault(number(100)), number(10), "all of it was withdrawn meanwhile");
    }

    /// By hand, after 5 of interest: 100 are supplied, 40 withdrawn, and 3 withdrawn, which mints the other 2.
    #[test]
    fn supplies_and_withdrawals_are_told_from_interest() {
        let (me, zero) = (Address::repeat_byte(1), Address::ZERO);
        let number = |raw: u64| U256::from(raw);
        let placed = |data| PlacedLog {
            number: 1,
            hash: B256::ZERO,
            index: 0,
            transaction: B256::ZERO,
            time: None,
            log: Log { address: zero, data },
        };
        let mint = |value: u64| {
            let event = AaveBalance::Mint {
                caller: me,
                onBehalfOf: me,
                value: number(value),
                balanceIncrease: number(5),
                index: number(1),
            };
            flows(&placed(event.encode_log_data()))
        };
        assert_eq!(mint(105), [number(100), U256::ZERO]);
        assert_eq!(mint(2), [U256::ZERO, number(3)]);
        let (from, target, value, balance_increase) = (me, me, number(35), number(5));
        let burn = AaveBalance::Burn { from, target, value, balanceIncrease: balance_increase, index: number(1) };
        assert_eq!(flows(&placed(burn.encode_log_data())), [U256::ZERO, number(40)]);
    }
}
