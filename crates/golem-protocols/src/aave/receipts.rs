//! Use of a market by an account at all. The pool's bits of an account do not show a supply outside its collateral, so the
//! tokens that stand for supplies are asked too. Which tokens these are is kept, so that a reading costs one round trip.

use alloy::eips::BlockId;
use alloy::primitives::Address;
use alloy::providers::DynProvider;
use parking_lot::Mutex;

use super::market::{MOST_RESERVES, MarketContracts, MarketError};
use bardo_abi::aave::{AaveBalance, AavePool};
use golem_chain::multicall::{CallBatch, CallIndex};

/// Tokens that stand for supplies, of the pool that was read last. They are not believed beyond its list of reserves: every
/// reading compares that list with the pool's answer in the same batch.
#[derive(Debug, Default)]
pub struct ReceiptTokens(Mutex<Option<KnownReceipts>>);

/// Reserves of a pool, and the token of each.
#[derive(Debug, Clone)]
struct KnownReceipts {
    pool: Address,
    listed: Vec<Address>,
    tokens: Vec<Address>,
}

impl ReceiptTokens {
    /// Returns whether an account has supplies or debts; `None` where the book's pool has no code. One round trip; two more
    /// where the reserves are not known yet.
    ///
    /// # Errors
    /// [`MarketError`]
    pub async fn is_used(
        &self,
        contracts: &MarketContracts,
        provider: &DynProvider,
        account: Address,
        block: BlockId,
    ) -> Result<Option<bool>, MarketError> {
        let MarketContracts { pool, multicall, .. } = *contracts;
        let silent = || MarketError::unreadable("its pool does not answer");
        let known = self.0.lock().clone().filter(|known| known.pool == pool);
        let mut calls = CallBatch::default();
        let bits = calls.push(pool, &AavePool::getUserConfigurationCall { user: account });
        let listed = calls.push(pool, &AavePool::getReservesListCall {});
        let balances = known.as_ref().map(|known| ask_balances(&mut calls, &known.tokens, account));
        let answers = calls.send(provider, multicall, block).await?;
        let bits = match bits.take(&answers) {
            Some(bits) => bits,
            None if bits.is_void(&answers) => return Ok(None),
            None => return Err(silent()),
        };
        if !bits.is_zero() {
            return Ok(Some(true));
        }
        let listed = listed.take(&answers).ok_or_else(silent)?;
        if listed.len() > MOST_RESERVES {
            return Err(MarketError::unreadable("it lists more reserves than a pool can have"));
        }
        if let Some((_, asked)) = known.zip(balances).filter(|(known, _)| known.listed == listed) {
            let held = asked.iter().map(|balance| balance.take(&answers).ok_or_else(silent));
            return Ok(Some(held.collect::<Result<Vec<_>, _>>()?.iter().any(|held| !held.is_zero())));
        }
        let mut calls = CallBatch::default();
        // A dropped reserve leaves the zero address in the list.
        let reserves = listed.iter().filter(|asset| !asset.is_zero());
        let asked: Vec<_> =
            reserves.map(|asset| calls.push(pool, &AavePool::getReserveDataCall { asset: *asset })).collect();
        let answers = calls.send(provider, multicall, block).await?;
        let tokens = asked.iter().map(|data| Ok(data.take(&answers).ok_or_else(silent)?.aTokenAddress));
        let tokens = tokens.collect::<Result<Vec<Address>, MarketError>>()?;
        let mut calls = CallBatch::default();
        let asked = ask_balances(&mut calls, &tokens, account);
        let answers = calls.send(provider, multicall, block).await?;
        let held = asked.iter().map(|balance| balance.take(&answers).ok_or_else(silent));
        let held = held.collect::<Result<Vec<_>, _>>()?;
        *self.0.lock() = Some(KnownReceipts { pool, listed, tokens });
        Ok(Some(held.iter().any(|held| !held.is_zero())))
    }
}

fn ask_balances(
    calls: &mut CallBatch,
    tokens: &[Address],
    account: Address,
) -> Vec<CallIndex<AaveBalance::balanceOfCall>> {
    tokens.iter().map(|token| calls.push(*token, &AaveBalance::balanceOfCall { user: account })).collect()
}
