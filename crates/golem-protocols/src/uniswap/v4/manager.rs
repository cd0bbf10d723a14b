//! Calls of the V4 `PositionManager` in closed forms: what a plan does to one position, as the actions of one
//! `modifyLiquidities`, and back from its bytes. Anything but exactly these bytes is refused.
//!
//! | change | actions |
//! |---|---|
//! | collect | DECREASE_LIQUIDITY of nothing, TAKE_PAIR |
//! | remove | DECREASE_LIQUIDITY, TAKE_PAIR |
//! | close | BURN_POSITION, TAKE_PAIR |
//! | mint | MINT_POSITION, SETTLE_PAIR; with the native token SWEEP |
//! | increase | INCREASE_LIQUIDITY, CLOSE_CURRENCY twice; with the native token SWEEP |
//! | compound | INCREASE_LIQUIDITY, TAKE_PAIR |
//!
//! Hooks get no data. What comes out goes to the account that signs; `CLOSE_CURRENCY` pays the caller, who is that account.
//! A compounding whose fees do not pay for the liquidity reverts at TAKE_PAIR, so that the account gives nothing.
//!
//! Differences from V3: liquidity is named and amounts follow from it, so a deposit has maximums and no minimums, and the
//! minimums of a withdrawal are without fees as in V3 (v4-periphery: `PositionManager`, `Actions`, `SlippageCheck`).

use alloy::primitives::aliases::I24;
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::abi::TokenSeq;
use alloy::sol_types::{SolCall, SolType, SolValue};

use crate::uniswap::v3::manager::PositionCallError;
use crate::uniswap::v3::position::TickRange;
use bardo_abi::uniswap_v4::{PoolKey, PositionManager as Manager};

/// Actions of the position manager (`Actions` of v4-periphery).
const INCREASE_LIQUIDITY: u8 = 0x00;
const DECREASE_LIQUIDITY: u8 = 0x01;
const MINT_POSITION: u8 = 0x02;
const BURN_POSITION: u8 = 0x03;
const SETTLE_PAIR: u8 = 0x0d;
const TAKE_PAIR: u8 = 0x11;
const CLOSE_CURRENCY: u8 = 0x12;
const SWEEP: u8 = 0x14;

/// Liquidity that is added to a V4 position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedDeposit {
    /// Liquidity that is added.
    pub liquidity: u128,
    /// Maximum amounts that it may take, in raw units of both currencies.
    pub most: [u128; 2],
}

/// Kind of a change of one V4 position. Amounts are in raw units of both currencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyedChange {
    /// Collects everything that the position is owed.
    Collect {
        /// Number of the position's token.
        token_id: U256,
    },
    /// Withdraws a part, and collects everything.
    Remove {
        /// Number of the position's token.
        token_id: U256,
        /// Liquidity that is withdrawn.
        liquidity: u128,
        /// Minimum amounts, without fees.
        least: [u128; 2],
    },
    /// Withdraws everything, collects it, and burns the token.
    Close {
        /// Number of the position's token.
        token_id: U256,
        /// Minimum amounts, without fees.
        least: [u128; 2],
    },
    /// Opens a position.
    Mint {
        /// Key of the pool.
        key: PoolKey,
        /// Range of the position.
        range: TickRange,
        /// Liquidity that is added.
        deposit: KeyedDeposit,
    },
    /// Adds to a position, with what it is owed first.
    Increase {
        /// Number of the position's token.
        token_id: U256,
        /// Liquidity that is added.
        deposit: KeyedDeposit,
    },
    /// Adds to a position from what it is owed alone, and collects the rest.
    Compound {
        /// Number of the position's token.
        token_id: U256,
        /// Liquidity that is added.
        deposit: KeyedDeposit,
    },
}

/// Change of one V4 position that may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedPlan {
    /// Both currencies of the pool, in its order; the zero address is the native token.
    pub currencies: [Address; 2],
    /// Change of the position.
    pub change: KeyedChange,
    /// Last second in which it may be included, since the Unix epoch.
    pub deadline: U256,
}

impl KeyedPlan {
    /// Encodes the plan as one call of the manager by `account`.
    pub fn calldata(&self, account: Address) -> Bytes {
        let [first, second] = self.currencies;
        let none = Bytes::new;
        let take = || (TAKE_PAIR, (first, second, account).abi_encode_params());
        let decrease = |token_id: U256, liquidity: u128, [least0, least1]: [u128; 2]| {
            (DECREASE_LIQUIDITY, (token_id, U256::from(liquidity), least0, least1, none()).abi_encode_params())
        };
        let increase = |token_id: U256, KeyedDeposit { liquidity, most: [most0, most1] }| {
            (INCREASE_LIQUIDITY, (token_id, U256::from(liquidity), most0, most1, none()).abi_encode_params())
        };
        // What the call brings of the native token and the position does not take.
        let rest = || first.is_zero().then(|| (SWEEP, (first, account).abi_encode_params()));
        let steps: Vec<(u8, Vec<u8>)> = match self.change {
            KeyedChange::Collect { token_id } => vec![decrease(token_id, 0, [0, 0]), take()],
            KeyedChange::Remove { token_id, liquidity, least } => vec![decrease(token_id, liquidity, least), take()],
            KeyedChange::Close { token_id, least: [least0, least1] } => {
                vec![(BURN_POSITION, (token_id, least0, least1, none()).abi_encode_params()), take()]
            }
            KeyedChange::Mint { key, range, deposit: KeyedDeposit { liquidity, most: [most0, most1] } } => {
                // Ticks of a range fit 24 bits.
                let tick = |tick| I24::try_from(tick).unwrap_or_default();
                let (lower, upper) = (tick(range.lower()), tick(range.upper()));
                let mint = (key, lower, upper, U256::from(liquidity), most0, most1, account, none());
                let mint = (MINT_POSITION, mint.abi_encode_params());
                let settle = (SETTLE_PAIR, (first, second).abi_encode_params());
                [mint, settle].into_iter().chain(rest()).collect()
            }
            KeyedChange::Increase { token_id, deposit } => {
                let close = |currency: Address| (CLOSE_CURRENCY, currency.abi_encode());
                [increase(token_id, deposit), close(first), close(second)].into_iter().chain(rest()).collect()
            }
            KeyedChange::Compound { token_id, deposit } => vec![increase(token_id, deposit), take()],
        };
        let (actions, inputs): (Vec<u8>, Vec<Bytes>) =
            steps.into_iter().map(|(action, input)| (action, Bytes::from(input))).unzip();
        let unlock = (Bytes::from(actions), inputs).abi_encode_params();
        Manager::modifyLiquiditiesCall { unlockData: unlock.into(), deadline: self.deadline }.abi_encode().into()
    }

    /// Decodes a call of the manager by `account`.
    ///
    /// # Errors
    /// [`PositionCallError`] for anything that [`KeyedPlan::calldata`] would not make for the same account.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, PositionCallError> {
        let call = Manager::modifyLiquiditiesCall::abi_decode_validate(data).map_err(|_| PositionCallError::Unknown)?;
        let (actions, inputs): (Bytes, Vec<Bytes>) = decoded(&call.unlockData)?;
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| input.as_ref()).collect();
        let mine = |recipient: Address| match recipient == account {
            true => Ok(()),
            false => Err(PositionCallError::Recipient(recipient)),
        };
        let taken = |input: &[u8]| {
            let (first, second, to): (Address, Address, Address) = decoded(input)?;
            mine(to)?;
            Ok::<_, PositionCallError>([first, second])
        };
        let modified = |input: &[u8]| {
            let (token_id, liquidity, first, second, _): (U256, U256, u128, u128, Bytes) = decoded(input)?;
            let liquidity = u128::try_from(liquidity).map_err(|_| PositionCallError::Encoding)?;
            Ok::<_, PositionCallError>((token_id, liquidity, [first, second]))
        };
        let (currencies, change) = match (actions.as_ref(), inputs.as_slice()) {
            ([DECREASE_LIQUIDITY, TAKE_PAIR], [part, take]) => {
                let (token_id, liquidity, least) = modified(part)?;
                let change = match liquidity {
                    0 => KeyedChange::Collect { token_id },
                    _ => KeyedChange::Remove { token_id, liquidity, least },
                };
                (taken(take)?, change)
            }
            ([BURN_POSITION, TAKE_PAIR], [burn, take]) => {
                let (token_id, first, second, _): (U256, u128, u128, Bytes) = decoded(burn)?;
                (taken(take)?, KeyedChange::Close { token_id, least: [first, second] })
            }
            ([MINT_POSITION, SETTLE_PAIR] | [MINT_POSITION, SETTLE_PAIR, SWEEP], [mint, _, ..]) => {
                type Minted = (PoolKey, I24, I24, U256, u128, u128, Address, Bytes);
                let (key, lower, upper, liquidity, first, second, owner, _): Minted = decoded(mint)?;
                mine(owner)?;
                let range = TickRange::new(lower.as_i32(), upper.as_i32()).map_err(|_| PositionCallError::Range)?;
                let liquidity = u128::try_from(liquidity).map_err(|_| PositionCallError::Encoding)?;
                let deposit = KeyedDeposit { liquidity, most: [first, second] };
                ([key.currency0, key.currency1], KeyedChange::Mint { key, range, deposit })
            }
            (
                [INCREASE_LIQUIDITY, CLOSE_CURRENCY, CLOSE_CURRENCY]
                | [INCREASE_LIQUIDITY, CLOSE_CURRENCY, CLOSE_CURRENCY, SWEEP],
                [part, first, second, ..],
            ) => {
                let (token_id, liquidity, most) = modified(part)?;
                let deposit = KeyedDeposit { liquidity, most };
                let currency =
                    |input: &[u8]| Address::abi_decode_validate(input).map_err(|_| PositionCallError::Encoding);
                ([currency(first)?, currency(second)?], KeyedChange::Increase { token_id, deposit })
            }
            ([INCREASE_LIQUIDITY, TAKE_PAIR], [part, take]) => {
                let (token_id, liquidity, most) = modified(part)?;
                (taken(take)?, KeyedChange::Compound { token_id, deposit: KeyedDeposit { liquidity, most } })
            }
            _ => return Err(PositionCallError::Unknown),
        };
        if let ([.., SWEEP], [.., rest]) = (actions.as_ref(), inputs.as_slice()) {
            let (_, to): (Address, Address) = decoded(rest)?;
            mine(to)?;
        }
        let plan = Self { currencies, change, deadline: call.deadline };
        // Data for a hook, another currency to settle or sweep, offsets, padding: all of it must be what we would send.
        if plan.calldata(account).as_ref() != data {
            return Err(PositionCallError::Encoding);
        }
        Ok(plan)
    }

    /// Number of the position's token; `None` for one that is only opened.
    pub fn token_id(&self) -> Option<U256> {
        match self.change {
            KeyedChange::Collect { token_id }
            | KeyedChange::Remove { token_id, .. }
            | KeyedChange::Close { token_id, .. }
            | KeyedChange::Increase { token_id, .. }
            | KeyedChange::Compound { token_id, .. } => Some(token_id),
            KeyedChange::Mint { .. } => None,
        }
    }

    /// Deposit of the plan, if it has one.
    pub fn deposit(&self) -> Option<KeyedDeposit> {
        match self.change {
            KeyedChange::Mint { deposit, .. }
            | KeyedChange::Increase { deposit, .. }
            | KeyedChange::Compound { deposit, .. } => Some(deposit),
            KeyedChange::Collect { .. } | KeyedChange::Remove { .. } | KeyedChange::Close { .. } => None,
        }
    }

    /// Minimum amounts of a withdrawal, without fees; `None` if it has none.
    pub fn least(&self) -> Option<[u128; 2]> {
        match self.change {
            KeyedChange::Remove { least, .. } | KeyedChange::Close { least, .. } => Some(least),
            KeyedChange::Collect { .. }
            | KeyedChange::Mint { .. }
            | KeyedChange::Increase { .. }
            | KeyedChange::Compound { .. } => None,
        }
    }

    /// Amount of the native token that the call must bring, in wei: all that the position may take of it. The rest is
    /// swept back.
    pub fn value(&self) -> U256 {
        let [first, _] = self.currencies;
        match self.change {
            KeyedChange::Mint { deposit, .. } | KeyedChange::Increase { deposit, .. } if first.is_zero() => {
                U256::from(deposit.most[0])
            }
            KeyedChange::Mint { .. }
            | KeyedChange::Increase { .. }
            | KeyedChange::Collect { .. }
            | KeyedChange::Remove { .. }
            | KeyedChange::Close { .. }
            | KeyedChange::Compound { .. } => U256::ZERO,
        }
    }
}

/// Decodes an action's input strictly.
fn decoded<'a, T>(input: &'a [u8]) -> Result<T, PositionCallError>
where
    T: SolValue + From<<T::SolType as SolType>::RustType>,
    <T::SolType as SolType>::Token<'a>: TokenSeq<'a>,
{
    T::abi_decode_params_validate(input).map_err(|_| PositionCallError::Encoding)
}

#[cfg(test)]
mod tests;
