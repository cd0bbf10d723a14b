//! Permissions in a hook's address: its lowest 14 bits say which of its functions the pool manager calls (v4-core: `Hooks`).

use alloy::primitives::Address;

macro_rules! permissions {
    ($($(#[$meta:meta])* $variant:ident = $bit:literal, $name:literal;)+) => {
        /// Function of a hook that the pool manager calls, or amounts of its own that it may return.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Permission {
            $($(#[$meta])* $variant,)+
        }

        impl Permission {
            /// All permissions, from the highest bit.
            pub const ALL: [Self; 14] = [$(Self::$variant,)+];

            /// Bit of the permission in an address.
            pub const fn bit(self) -> u16 {
                match self {
                    $(Self::$variant => 1 << $bit,)+
                }
            }

            /// Name of the permission, in snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

permissions! {
    /// Before a pool is created.
    BeforeInitialize = 13, "before_initialize";
    /// After a pool is created.
    AfterInitialize = 12, "after_initialize";
    /// Before liquidity is added.
    BeforeAddLiquidity = 11, "before_add_liquidity";
    /// After liquidity is added.
    AfterAddLiquidity = 10, "after_add_liquidity";
    /// Before liquidity is removed.
    BeforeRemoveLiquidity = 9, "before_remove_liquidity";
    /// After liquidity is removed.
    AfterRemoveLiquidity = 8, "after_remove_liquidity";
    /// Before a swap; in a pool whose hook sets the fee, with the fee.
    BeforeSwap = 7, "before_swap";
    /// After a swap.
    AfterSwap = 6, "after_swap";
    /// Before a donation to liquidity providers.
    BeforeDonate = 5, "before_donate";
    /// After such a donation.
    AfterDonate = 4, "after_donate";
    /// Amounts of its own before a swap: it may replace the pool's curve.
    BeforeSwapReturnsDelta = 3, "before_swap_returns_delta";
    /// Amounts of its own after a swap.
    AfterSwapReturnsDelta = 2, "after_swap_returns_delta";
    /// Amounts of its own after liquidity is added.
    AfterAddLiquidityReturnsDelta = 1, "after_add_liquidity_returns_delta";
    /// Amounts of its own after liquidity is removed.
    AfterRemoveLiquidityReturnsDelta = 0, "after_remove_liquidity_returns_delta";
}

/// Bits of an address that state permissions.
pub const MASK: u16 = 0x3fff;

/// Permissions of a hook as bits: the lowest 14 of its address.
pub fn bits_of(hook: Address) -> u16 {
    let [.., high, low] = hook.into_array();
    u16::from_be_bytes([high, low]) & MASK
}

/// Permissions of a hook, from the highest bit.
pub fn permissions_of(hook: Address) -> Vec<Permission> {
    Permission::ALL.into_iter().filter(|one| bits_of(hook) & one.bit() != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::address;

    /// `Hooks` of v4-core: `BEFORE_SWAP_FLAG = 1 << 7`, `AFTER_SWAP_RETURNS_DELTA_FLAG = 1 << 2`, `BEFORE_INITIALIZE_FLAG = 1 << 13`;
    /// the two bits above are none.
    #[test]
    fn an_address_states_its_permissions_in_its_lowest_14_bits() {
        let named = |hook| permissions_of(hook).iter().map(|one| one.name()).collect::<Vec<_>>();
        assert_eq!(
            named(address!("0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5ae084")),
            ["before_initialize", "before_swap", "after_swap_returns_delta"]
        );
        assert!(named(address!("0xffffffffffffffffffffffffffffffffffffc000")).is_empty());
        let all = address!("0x0000000000000000000000000000000000003fff");
        assert_eq!(permissions_of(all), Permission::ALL);
    }
}
