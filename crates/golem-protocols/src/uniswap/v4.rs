//! V4 pools without a hook in swaps: exact quotes by V3's tick mathematics, which V4 shares, with V4's fees.
//!
//! Differences from V3 (v4-core: `Pool.swap`, `SwapMath`, `ProtocolFeeLibrary`, `Hooks`):
//! - A protocol fee per direction comes on top of the liquidity providers' fee, so a pool's fee depends on the
//!   direction.
//! - Changes of balances are signed 128-bit integers; larger amounts revert.
//! - A hook may change amounts and fees. A pool is only quoted if its hook's address lacks all permissions for swaps,
//!   and its fee is fixed.
//!
//! The steps of a swap give the same amounts: V4 does not recompute the input of a step that ends before its target, but
//! the sum of input and fee is the same.

pub mod manager;

use std::sync::Arc;

use alloy::primitives::{Address, B256, U256, keccak256};
use alloy::sol_types::SolValue;

use super::pool::{FixedAmount, PoolError, PoolQuote};
use super::pool_id::PoolId;
use super::ratio::Ratio;
use super::v3::{FEE_WHOLE, V3Pool, V3State};
use bardo_abi::uniswap_v4::PoolKey;

/// Fee in a key that stands for a fee that the hook sets (`LPFeeLibrary.DYNAMIC_FEE_FLAG`).
pub const DYNAMIC_FEE: u32 = 0x80_0000;

/// Permissions in a hook's address that concern swaps: before and after a swap, each with and without returning an
/// amount (`Hooks`, bits 7, 6, 3 and 2).
const SWAP_PERMISSIONS: u16 = 0b1100_1100;

/// Permissions in a hook's address that concern the removal of liquidity: before and after it, and returning an amount (`Hooks`,
/// bits 9, 8 and 0).
const REMOVAL_PERMISSIONS: u16 = 0b0011_0000_0001;

/// Maximum protocol fee of one direction, in millionths (`ProtocolFeeLibrary.MAX_PROTOCOL_FEE`).
const MAX_PROTOCOL_FEE: u32 = 1_000;

/// First amount that does not fit the signed 128-bit integers of a balance change.
const AMOUNT_END: U256 = U256::from_limbs([0, 1 << 63, 0, 0]);

/// Returns the hash of a key, under which the pool manager holds the pool.
pub fn key_hash(key: &PoolKey) -> B256 {
    keccak256(key.abi_encode())
}

/// Returns the reason why swaps through the pool of this key are not computed; `None` if they are: currencies in order,
/// a fixed fee below the whole input, and no hook that takes part in swaps.
pub fn key_fault(key: &PoolKey) -> Option<&'static str> {
    if key.currency0 >= key.currency1 {
        Some("its currencies are not in order")
    } else if key.fee.to::<u32>() == DYNAMIC_FEE {
        Some("its hook sets the fee")
    } else if key.fee.to::<u32>() >= FEE_WHOLE {
        Some("its fee is the whole input or more")
    } else if permissions(key.hooks) & SWAP_PERMISSIONS != 0 {
        Some("its hook takes part in swaps")
    } else {
        None
    }
}

/// Returns the reason why no pool has this key; `None` if one can. What its hook does with a deposit, simulations show
/// (see [`super::hook`]).
pub fn liquidity_fault(key: &PoolKey) -> Option<&'static str> {
    (key.currency0 >= key.currency1).then_some("its currencies are not in order")
}

/// Returns true if the hook of this address takes part when liquidity is removed: it can refuse that, or keep a part.
pub fn hook_joins_removal(hooks: Address) -> bool {
    permissions(hooks) & REMOVAL_PERMISSIONS != 0
}

/// Permissions of a hook, the lowest bits of its address.
fn permissions(hooks: Address) -> u16 {
    let [.., high, low] = hooks.into_array();
    u16::from_be_bytes([high, low])
}

/// State of a V4 pool at one block, as read from the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4State {
    /// Key of the pool.
    pub key: PoolKey,
    /// Token that stands for the native token in routes; the pool trades the native token itself.
    pub wrapped_native: Address,
    /// Protocol fee from `getSlot0`: the upper 12 bits for selling currency 1, the lower 12 for selling currency 0, in
    /// millionths.
    pub protocol_fee: u32,
    /// Fee of the liquidity providers from `getSlot0`, in millionths.
    pub lp_fee: u32,
    /// Square root of the price in raw currency 1 per raw currency 0, times 2^96.
    pub sqrt_price_x96: U256,
    /// Current tick from `getSlot0`.
    pub tick: i32,
    /// Liquidity in range.
    pub liquidity: u128,
    /// Initialized ticks within `known_ticks`, ascending.
    pub ticks: Vec<super::v3::Tick>,
    /// Range of ticks whose state was read. Swaps beyond it are refused.
    pub known_ticks: std::ops::RangeInclusive<i32>,
}

/// Validated V4 pool.
#[derive(Debug, Clone)]
pub struct V4Pool {
    key: PoolKey,
    id: PoolId,
    tokens: (Address, Address),
    /// Curve with the fee for selling currency 0, and the one with the fee for selling currency 1.
    selling: [Arc<V3Pool>; 2],
}

impl V4Pool {
    /// Validates the state and creates a pool.
    ///
    /// # Errors
    /// [`PoolError::Unsupported`] for a pool whose swaps are not computed (see [`key_fault`]), and
    /// [`PoolError::InvalidState`] for a state that no pool can have.
    pub fn new(state: V4State) -> Result<Self, PoolError> {
        let V4State { key, wrapped_native, protocol_fee, lp_fee, .. } = state;
        let id = PoolId::Keyed(key_hash(&key));
        if let Some(what) = key_fault(&key) {
            return Err(PoolError::Unsupported { pool: id, what });
        }
        let in_routes = |currency: Address| if currency.is_zero() { wrapped_native } else { currency };
        let tokens = (in_routes(key.currency0), in_routes(key.currency1));
        if tokens.0 == tokens.1 {
            return Err(PoolError::Unsupported { pool: id, what: "it trades the native token for its wrapped token" });
        }
        if lp_fee != key.fee.to::<u32>() {
            return Err(PoolError::InvalidState { pool: id, what: "its fee is not the one of its key" });
        }
        let fees = [protocol_fee & 0xfff, protocol_fee >> 12];
        if fees.iter().any(|fee| *fee > MAX_PROTOCOL_FEE) {
            return Err(PoolError::InvalidState { pool: id, what: "its protocol fee is out of range" });
        }
        let [selling_0, selling_1] = fees.map(|protocol| swap_fee(protocol, lp_fee));
        let curve = |fee| {
            V3Pool::new(V3State {
                id,
                token0: key.currency0,
                token1: key.currency1,
                fee,
                tick_spacing: key.tickSpacing.as_i32(),
                sqrt_price_x96: state.sqrt_price_x96,
                liquidity: state.liquidity,
                tick: state.tick,
                ticks: state.ticks.clone(),
                known_ticks: state.known_ticks.clone(),
            })
            .map(Arc::new)
        };
        let first = curve(selling_0)?;
        let second = if selling_1 == selling_0 { Arc::clone(&first) } else { curve(selling_1)? };
        Ok(Self { key, id, tokens, selling: [first, second] })
    }

    /// Returns the pool's key.
    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    /// Returns the pool's identity, the hash of its key.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Returns the tokens of currency 0 and currency 1 in routes: the wrapped token stands for the native one.
    pub fn tokens(&self) -> (Address, Address) {
        self.tokens
    }

    /// Returns the liquidity in range and the current tick.
    pub fn position(&self) -> (u128, i32) {
        let state = self.curve(true).state();
        (state.liquidity, state.tick)
    }

    /// Returns the fee of a swap in this direction in millionths of the input, with the protocol's fee.
    pub fn fee(&self, zero_for_one: bool) -> u32 {
        self.curve(zero_for_one).state().fee
    }

    /// Quotes a swap of the whole amount.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount is invalid or cannot be filled.
    pub fn quote(&self, zero_for_one: bool, exact: FixedAmount) -> Result<PoolQuote, PoolError> {
        self.check_amount(exact.amount())?;
        let quote = self.curve(zero_for_one).quote(zero_for_one, exact)?;
        self.check_amount(quote.amount_in.max(quote.amount_out))?;
        Ok(quote)
    }

    /// Quotes like [`V4Pool::quote`], and returns the pool after the swap.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount is invalid or cannot be filled.
    pub fn after(&self, zero_for_one: bool, exact: FixedAmount) -> Result<(PoolQuote, Self), PoolError> {
        let quote = self.quote(zero_for_one, exact)?;
        let (_, moved) = self.curve(zero_for_one).after(zero_for_one, exact)?;
        let [first, second] = &self.selling;
        let with_fee =
            |curve: &V3Pool| V3Pool::new(V3State { fee: curve.state().fee, ..moved.state().clone() }).map(Arc::new);
        let selling = [with_fee(first)?, with_fee(second)?];
        Ok((quote, Self { selling, ..self.clone() }))
    }

    /// Returns the current price before the fee, in raw output units per raw input unit.
    pub fn mid_price(&self, zero_for_one: bool) -> Option<Ratio> {
        self.curve(zero_for_one).mid_price(zero_for_one)
    }

    /// Returns the reserve of a constant product with this price and liquidity.
    pub fn virtual_reserve(&self, of_token0: bool) -> U256 {
        self.curve(true).virtual_reserve(of_token0)
    }

    /// Returns the output that can be taken from the known ticks in this direction, in raw units: all that the pool
    /// holds of that currency within them, except for fees that were not collected. The pool manager holds the
    /// currencies of all pools together, so a balance says nothing about one of them.
    pub fn held_out(&self, zero_for_one: bool) -> U256 {
        self.curve(zero_for_one).held_out(zero_for_one)
    }

    fn curve(&self, zero_for_one: bool) -> &V3Pool {
        let [first, second] = &self.selling;
        if zero_for_one { first } else { second }
    }

    fn check_amount(&self, amount: U256) -> Result<(), PoolError> {
        if amount < AMOUNT_END { Ok(()) } else { Err(PoolError::InsufficientLiquidity { pool: self.id }) }
    }
}

/// Fee of a swap in millionths of the input: the protocol's fee, and the liquidity providers' fee on the rest, rounded
/// up (`ProtocolFeeLibrary.calculateSwapFee`: `p + l − floor(p × l / 1,000,000)`).
fn swap_fee(protocol: u32, lp: u32) -> u32 {
    // The fees are below 2^12 and 2^20.
    let both = u64::from(protocol) * u64::from(lp) / u64::from(FEE_WHOLE);
    (protocol + lp).saturating_sub(u32::try_from(both).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::aliases::{I24, U24};

    use super::*;
    use crate::uniswap::v3::tick_math::sqrt_price_at_tick;
    use crate::uniswap::v3::{ALL_TICKS, Tick};

    const NATIVE_TOKEN: Address = Address::repeat_byte(0xee);

    fn key(fee: u32, hooks: Address) -> PoolKey {
        PoolKey {
            currency0: Address::ZERO,
            currency1: Address::repeat_byte(1),
            fee: U24::from(fee),
            tickSpacing: I24::try_from(60).unwrap(),
            hooks,
        }
    }

    fn state(fee: u32, protocol_fee: u32) -> V4State {
        let liquidity = 1_u128 << 80;
        let net = i128::try_from(liquidity).unwrap();
        V4State {
            key: key(fee, Address::ZERO),
            wrapped_native: NATIVE_TOKEN,
            protocol_fee,
            lp_fee: fee,
            sqrt_price_x96: sqrt_price_at_tick(0).unwrap(),
            tick: 0,
            liquidity,
            ticks: vec![Tick { index: -6_000, liquidity_net: net }, Tick { index: 6_000, liquidity_net: -net }],
            known_ticks: ALL_TICKS,
        }
    }

    fn hook(low: u16) -> Address {
        let mut bytes = [0x5a; 20];
        bytes[18..].copy_from_slice(&low.to_be_bytes());
        bytes.into()
    }

    #[test]
    fn the_protocols_fee_counts_in_its_direction() {
        // 1,000 + 3,000 − floor(1,000 × 3,000 / 1,000,000) = 3,997, and 250 + 3,000 − floor(0.75) = 3,250.
        let pool = V4Pool::new(state(3_000, 250 << 12 | 1_000)).unwrap();
        assert_eq!([pool.fee(true), pool.fee(false)], [3_997, 3_250]);
        let plain = V4Pool::new(state(3_000, 0)).unwrap();
        assert_eq!([plain.fee(true), plain.fee(false)], [3_000, 3_000]);
        let amount = FixedAmount::In(U256::from(1_000_000_000_u64));
        let out = |pool: &V4Pool, down| pool.quote(down, amount).unwrap().amount_out.to::<u64>();
        // At a price of one and far more liquidity, what is left after the fee is the output, less one unit of rounding.
        assert_eq!([out(&pool, true), out(&pool, false)], [996_002_999, 996_749_999]);
        assert_eq!(out(&plain, true), 996_999_999);
        let above = |fee| matches!(V4Pool::new(state(3_000, fee)), Err(PoolError::InvalidState { .. }));
        assert!(above(1_001) && above(1_001 << 12) && !above(1_000 << 12));
    }

    /// The bits of v4-core's `Hooks`: before and after liquidity is added (11, 10) and removed (9, 8), and amounts that the
    /// hook returns after either (1, 0).
    #[test]
    fn a_hooks_address_tells_whether_it_takes_part_in_changes_of_liquidity() {
        for bit in 0..14 {
            let key = key(3_000, hook(1 << bit));
            assert_eq!(hook_joins_removal(key.hooks), [0, 8, 9].contains(&bit), "bit {bit}");
        }
        assert!(liquidity_fault(&key(DYNAMIC_FEE, hook(0x40))).is_none() && !hook_joins_removal(Address::ZERO));
        let turned = PoolKey { currency0: Address::repeat_byte(2), ..key(3_000, Address::ZERO) };
        assert!(liquidity_fault(&turned).is_some());
    }

    #[test]
    fn a_swap_moves_the_pool_for_both_directions() {
        let pool = V4Pool::new(state(3_000, 250 << 12 | 1_000)).unwrap();
        let sold = FixedAmount::In(U256::from(1_u128 << 70));
        let (quote, after) = pool.after(true, sold).unwrap();
        assert_eq!(quote, pool.quote(true, sold).unwrap());
        assert!(after.mid_price(true) < pool.mid_price(true) && after.mid_price(false) > pool.mid_price(false));
        assert_eq!([after.fee(true), after.fee(false)], [3_997, 3_250]);
        // What was bought, sold back, returns less.
        let back = after.quote(false, FixedAmount::In(quote.amount_out)).unwrap();
        assert!(back.amount_out < sold.amount());
        // Each of the three is rounded down.
        assert!(pool.held_out(true) - quote.amount_out - after.held_out(true) <= U256::from(1));
    }

    #[test]
    fn hooks_that_take_part_in_swaps_and_changing_fees_are_not_quoted() {
        let made = |fee, hooks| V4Pool::new(V4State { key: key(fee, hooks), ..state(fee, 0) });
        let why = |fee, hooks| match made(fee, hooks) {
            Err(PoolError::Unsupported { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        // v4-core: before swap 1 << 7, after swap 1 << 6, and their returned amounts 1 << 3 and 1 << 2.
        for bit in 0..14 {
            let taken = made(3_000, hook(1 << bit));
            assert_eq!(taken.is_ok(), ![2, 3, 6, 7].contains(&bit), "{bit}: {taken:?}");
        }
        assert_eq!(why(3_000, hook(0x00c0)), "its hook takes part in swaps");
        assert_eq!(why(DYNAMIC_FEE, hook(0)), "its hook sets the fee");
        assert_eq!(why(1_000_000, Address::ZERO), "its fee is the whole input or more");
        let swapped = PoolKey { currency0: Address::repeat_byte(2), ..key(3_000, Address::ZERO) };
        assert!(key_fault(&swapped).is_some());
        // The native token for its wrapped token.
        let same = V4State { wrapped_native: Address::repeat_byte(1), ..state(3_000, 0) };
        assert!(matches!(V4Pool::new(same), Err(PoolError::Unsupported { .. })));
        // A fee that is not the key's.
        let other = V4State { lp_fee: 500, ..state(3_000, 0) };
        assert!(matches!(V4Pool::new(other), Err(PoolError::InvalidState { .. })));
    }

    #[test]
    fn amounts_end_where_balance_changes_end() {
        let pool = V4Pool::new(state(3_000, 0)).unwrap();
        let refused = Err(PoolError::InsufficientLiquidity { pool: pool.id() });
        assert_eq!(pool.quote(true, FixedAmount::In(U256::from(1) << 127)), refused);
        assert_eq!(pool.quote(true, FixedAmount::Out(U256::from(1) << 127)), refused);
        assert_eq!(pool.quote(true, FixedAmount::In(U256::ZERO)), Err(PoolError::ZeroAmount));
    }

    #[test]
    fn routes_see_the_wrapped_token_for_the_native_one() {
        let pool = V4Pool::new(state(500, 0)).unwrap();
        assert_eq!(pool.tokens(), (NATIVE_TOKEN, Address::repeat_byte(1)));
        assert_eq!(pool.key().currency0, Address::ZERO);
    }
}
