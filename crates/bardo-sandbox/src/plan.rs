//! The devnet's contents as data: tokens, feeds, pools with their liquidity, and initial balances.
//!
//! Not here: the deployment (see `genesis`).

use alloy::primitives::{U256, uint};

use super::contracts::BundledContract;
use super::target::PricedAsset;

/// A token of the devnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxToken {
    /// Wrapped ether, 18 decimals.
    Weth,
    /// USDC with 6 decimals.
    Usdc,
    /// USDT with 6 decimals.
    Usdt,
    /// DAI with 18 decimals.
    Dai,
    /// UNI with 18 decimals.
    Uni,
    /// LINK with 18 decimals.
    Link,
    /// WBTC with 8 decimals.
    Wbtc,
    /// Bad token that delivers one percent less than was sent.
    FeeOnTransfer,
    /// Bad token whose methods return no bool.
    NoReturn,
    /// Bad token whose symbol contains escape codes and bidi marks.
    HostileSymbol,
    /// Bad token with the symbol USDC in which one letter is Cyrillic.
    Lookalike,
    /// Bad token whose transfers always fail, so that it cannot be bought from a pool.
    Reverting,
}

/// Properties of a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenSetup {
    /// Name in the contract.
    pub name: &'static str,
    /// Symbol in the contract. That of a bad token may be hostile and must never be printed.
    pub symbol: &'static str,
    /// Decimals of the token.
    pub decimals: u8,
    /// Asset that determines the token's price.
    pub asset: PricedAsset,
    /// Contract that implements the token.
    pub contract: BundledContract,
    /// Key in the devnet's description: the symbol for good tokens. Bad tokens are listed among the contracts instead,
    /// so that no address book treats them as known.
    pub key: &'static str,
}

impl SandboxToken {
    /// Properties of this token.
    pub const fn plan(self) -> TokenSetup {
        use BundledContract::{
            FeeOnTransferToken, HostileSymbolToken, MockERC20, NoReturnToken, RevertingToken, Weth9,
        };
        const fn row(
            key: &'static str,
            symbol: &'static str,
            name: &'static str,
            decimals: u8,
            asset: PricedAsset,
            contract: BundledContract,
        ) -> TokenSetup {
            TokenSetup { name, symbol, decimals, asset, contract, key }
        }
        match self {
            Self::Weth => row("WETH", "WETH", "Wrapped Ether", 18, PricedAsset::Eth, Weth9),
            Self::Usdc => row("USDC", "USDC", "USD Coin", 6, PricedAsset::Usdc, MockERC20),
            Self::Usdt => row("USDT", "USDT", "Tether USD", 6, PricedAsset::Usdt, MockERC20),
            Self::Dai => row("DAI", "DAI", "Dai Stablecoin", 18, PricedAsset::Dai, MockERC20),
            Self::Uni => row("UNI", "UNI", "Uniswap", 18, PricedAsset::Uni, MockERC20),
            Self::Link => row("LINK", "LINK", "ChainLink Token", 18, PricedAsset::Link, MockERC20),
            Self::Wbtc => row("WBTC", "WBTC", "Wrapped BTC", 8, PricedAsset::Btc, MockERC20),
            Self::FeeOnTransfer => {
                row("badFeeOnTransferToken", "TOLL", "Toll Token", 18, PricedAsset::Curio, FeeOnTransferToken)
            }
            Self::NoReturn => row("badNoReturnToken", "MUTE", "Mute Token", 6, PricedAsset::Curio, NoReturnToken),
            Self::HostileSymbol => row(
                "badHostileSymbolToken",
                "\u{1b}[2J\u{1b}]0;owned\u{7}AD\u{202e}CDSU\u{200b}",
                // The longest text for which a name has room.
                "\u{1b}Approve unlimited: 0x00000000000000000000000000000000DeaDBeef\r\n",
                18,
                PricedAsset::Curio,
                HostileSymbolToken,
            ),
            // The last letter is U+0421, Cyrillic Es.
            Self::Lookalike => row("badLookalikeToken", "USD\u{421}", "USD Coin", 6, PricedAsset::Curio, MockERC20),
            Self::Reverting => row("badRevertingToken", "HOTEL", "Hotel Token", 18, PricedAsset::Curio, RevertingToken),
        }
    }

    /// Returns true if the token misbehaves.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::FeeOnTransfer | Self::NoReturn | Self::HostileSymbol | Self::Lookalike | Self::Reverting)
    }
}

/// A Uniswap protocol version, with the fee for V3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Venue {
    /// A V2 pair, 0.3 %.
    V2,
    /// A V3 pool with this fee, in parts per million (hundredths of a basis point).
    V3(u32),
}

impl Venue {
    /// Fee in parts per million.
    pub const fn fee(self) -> u32 {
        match self {
            Self::V2 => 3_000,
            Self::V3(fee) => fee,
        }
    }
}

/// A planned pool with its liquidity.
#[derive(Debug, Clone, Copy)]
pub struct PoolSetup {
    /// First token of the pair.
    pub a: SandboxToken,
    /// Second token of the pair.
    pub b: SandboxToken,
    /// V2, or V3 with its fee.
    pub venue: Venue,
    /// Total initial liquidity in dollars, half of it in each token.
    pub dollars: u64,
}

/// A currency of a V4 pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolCurrency {
    /// The chain's native token.
    Native,
    /// A token of the devnet.
    Token(SandboxToken),
}

impl PoolCurrency {
    /// Token with the same price and decimals: the wrapped one for the native token.
    pub const fn priced_as(self) -> SandboxToken {
        match self {
            Self::Native => SandboxToken::Weth,
            Self::Token(token) => token,
        }
    }
}

/// A hook contract of the devnet's V4 pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolHook {
    /// Counts swaps and changes nothing.
    SwapCount,
    /// Takes two percent of every output.
    SwapTax,
}

impl PoolHook {
    /// The hooks of the devnet, each deployed on both chains.
    pub const ALL: [Self; 2] = [Self::SwapCount, Self::SwapTax];

    /// Contract of the bundle that implements the hook.
    pub const fn contract(self) -> BundledContract {
        match self {
            Self::SwapCount => BundledContract::SwapCountHook,
            Self::SwapTax => BundledContract::SwapTaxHook,
        }
    }

    /// Key in the devnet's description.
    pub const fn key(self) -> &'static str {
        match self {
            Self::SwapCount => "swapCountHook",
            Self::SwapTax => "swapTaxHook",
        }
    }

    /// Permissions that the lowest 14 bits of the hook's address must state (`Hooks` of v4-core).
    pub const fn flags(self) -> u16 {
        const AFTER_SWAP: u16 = 1 << 6;
        const AFTER_SWAP_RETURNS_DELTA: u16 = 1 << 2;
        match self {
            Self::SwapCount => AFTER_SWAP,
            Self::SwapTax => AFTER_SWAP | AFTER_SWAP_RETURNS_DELTA,
        }
    }
}

/// A hook that harms those who trade in its pool or give it liquidity. Each has one pool of USDC and USDT, in which nobody else
/// trades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostileHook {
    /// Lets no liquidity out.
    ExitLock,
    /// Keeps five percent of every deposit of liquidity.
    DepositTax,
    /// Shows a fee of 0.05 %, and takes 20 % in transactions that pay for their gas.
    FeeJump,
}

impl HostileHook {
    /// The hostile hooks of the devnet, each deployed on both chains.
    pub const ALL: [Self; 3] = [Self::ExitLock, Self::DepositTax, Self::FeeJump];

    /// Contract of the bundle that implements the hook.
    pub const fn contract(self) -> BundledContract {
        match self {
            Self::ExitLock => BundledContract::ExitLockHook,
            Self::DepositTax => BundledContract::DepositTaxHook,
            Self::FeeJump => BundledContract::FeeJumpHook,
        }
    }

    /// Key in the devnet's description.
    pub const fn key(self) -> &'static str {
        match self {
            Self::ExitLock => "exitLockHook",
            Self::DepositTax => "depositTaxHook",
            Self::FeeJump => "feeJumpHook",
        }
    }

    /// Permissions that the lowest 14 bits of the hook's address must state (`Hooks` of v4-core).
    pub const fn flags(self) -> u16 {
        const AFTER_ADD_LIQUIDITY: u16 = 1 << 10;
        const BEFORE_REMOVE_LIQUIDITY: u16 = 1 << 9;
        const BEFORE_SWAP: u16 = 1 << 7;
        const AFTER_ADD_LIQUIDITY_RETURNS_DELTA: u16 = 1 << 1;
        match self {
            Self::ExitLock => BEFORE_REMOVE_LIQUIDITY,
            Self::DepositTax => AFTER_ADD_LIQUIDITY | AFTER_ADD_LIQUIDITY_RETURNS_DELTA,
            Self::FeeJump => BEFORE_SWAP,
        }
    }

    /// Fee of the hook's pool in parts per million; 0x800000 stands for a fee that the hook sets.
    pub const fn pool_fee(self) -> u32 {
        match self {
            Self::ExitLock | Self::DepositTax => 500,
            Self::FeeJump => 0x80_0000,
        }
    }
}

/// Initial liquidity of each hostile hook's pool, in dollars.
pub const HOSTILE_POOL_DOLLARS: u64 = 100_000;

/// Price of a release of the protocol's fees, in whole UNI.
pub const BURN_THRESHOLD: u64 = 2;

/// V3 pools of which the protocol takes a fourth of the fees.
pub const PROTOCOL_FEE_POOLS: [(SandboxToken, SandboxToken, Venue); 3] =
    [(Weth, Dai, V3(3_000)), (Uni, Weth, V3(3_000)), (Link, Weth, V3(3_000))];

/// A planned V4 pool with its liquidity.
#[derive(Debug, Clone, Copy)]
pub struct V4PoolSetup {
    /// First currency of the pool.
    pub a: PoolCurrency,
    /// Second currency of the pool.
    pub b: PoolCurrency,
    /// Fee in parts per million.
    pub fee: u32,
    /// Hook of the pool, if it has one.
    pub hook: Option<PoolHook>,
    /// Total initial liquidity in dollars, half of it in each currency.
    pub dollars: u64,
}

/// Distance between usable ticks that a pool with this fee has, in ticks: that of V3's tiers.
pub const fn tick_spacing(fee: u32) -> i32 {
    match fee {
        0..=100 => 1,
        101..=500 => 10,
        501..=3_000 => 60,
        _ => 200,
    }
}

/// Interest rates of a lending reserve by its utilisation: linear up to an optimum, and steep above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RateCurve {
    /// Rates of stablecoins.
    Stable,
    /// Rates of ether.
    Ether,
    /// Rates of other tokens.
    Volatile,
}

impl RateCurve {
    /// Optimal utilisation, base rate, rate added up to the optimum, and rate added above it, in percent.
    pub const fn percents(self) -> [u32; 4] {
        match self {
            Self::Stable => [90, 0, 5, 60],
            Self::Ether => [80, 0, 3, 80],
            Self::Volatile => [45, 0, 4, 300],
        }
    }
}

/// A planned reserve of the lending market.
#[derive(Debug, Clone, Copy)]
pub struct ReserveSetup {
    /// Token of the reserve.
    pub token: SandboxToken,
    /// Share of its value that can be borrowed against it, in basis points.
    pub ltv: u32,
    /// Share of its value from which a debt against it is liquidated, in basis points.
    pub threshold: u32,
    /// Bonus of a liquidator, in basis points.
    pub bonus: u32,
    /// Interest rates of the reserve.
    pub rates: RateCurve,
    /// Initial supply of the treasury, in dollars.
    pub supplied: u64,
    /// Initial debt of the treasury, in dollars.
    pub borrowed: u64,
}

const fn reserve(
    token: SandboxToken,
    [ltv, threshold, bonus]: [u32; 3],
    rates: RateCurve,
    [supplied, borrowed]: [u64; 2],
) -> ReserveSetup {
    ReserveSetup { token, ltv, threshold, bonus, rates, supplied, borrowed }
}

/// Reserves of the lending market, where the chain has the token.
pub const LENDING: &[ReserveSetup] = &[
    reserve(Weth, [8_050, 8_300, 500], RateCurve::Ether, [6_000_000, 1_800_000]),
    reserve(Usdc, [7_500, 7_800, 450], RateCurve::Stable, [8_000_000, 4_000_000]),
    reserve(Dai, [6_300, 7_700, 500], RateCurve::Stable, [3_000_000, 1_200_000]),
    reserve(Wbtc, [7_300, 7_800, 500], RateCurve::Volatile, [4_000_000, 400_000]),
];

/// A planned vault of the ERC-4626 standard.
#[derive(Debug, Clone, Copy)]
pub struct VaultSetup {
    /// Token that the vault holds.
    pub token: SandboxToken,
    /// Name of the shares.
    pub name: &'static str,
    /// Symbol of the shares.
    pub symbol: &'static str,
    /// Initial deposit of the treasury, in whole tokens.
    pub deposited: u64,
    /// Earnings since then, in whole tokens: a share is worth that much more.
    pub earned: u64,
}

/// Vault of both chains: a share is worth 1.05 USDC.
pub const VAULT: VaultSetup =
    VaultSetup { token: Usdc, name: "Devnet USDC Vault", symbol: "vUSDC", deposited: 2_000_000, earned: 100_000 };

/// Fate of the requests in a planned asynchronous vault. Amounts are in whole tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncVaultKind {
    /// Its manager settles.
    Open,
    /// Its manager settles, and it takes no more than this beyond what it has at genesis.
    Capped {
        /// Room for requests.
        room: u64,
    },
    /// Its manager values it and never settles; a resident has requested a deposit of this much.
    Stuck {
        /// Amount of the resident's request.
        requested: u64,
    },
    /// It is paused.
    Paused,
}

impl AsyncVaultKind {
    /// Key of the vault in the address book.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Open => "asyncVault",
            Self::Capped { .. } => "cappedAsyncVault",
            Self::Stuck { .. } => "stuckAsyncVault",
            Self::Paused => "pausedAsyncVault",
        }
    }

    /// Amount that belongs to the kind; zero without one.
    pub(super) const fn amount(self) -> u64 {
        match self {
            Self::Open | Self::Paused => 0,
            Self::Capped { room } => room,
            Self::Stuck { requested } => requested,
        }
    }

    /// Returns true if the manager settles the vault.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Open | Self::Capped { .. })
    }
}

/// A planned asynchronous vault.
#[derive(Debug, Clone, Copy)]
pub struct AsyncVaultSetup {
    /// Fate of its requests.
    pub kind: AsyncVaultKind,
    /// Token that the vault takes.
    pub token: SandboxToken,
    /// Name of the shares.
    pub name: &'static str,
    /// Symbol of the shares.
    pub symbol: &'static str,
    /// Initial deposit of the treasury, in whole tokens.
    pub deposited: u64,
    /// Earnings since then, in whole tokens.
    pub earned: u64,
}

const fn async_vault(kind: AsyncVaultKind, name: &'static str, symbol: &'static str) -> AsyncVaultSetup {
    AsyncVaultSetup { kind, token: Usdc, name, symbol, deposited: 500_000, earned: 10_000 }
}

/// Asynchronous vaults of both chains: a share is worth 1.02 USDC.
pub const ASYNC_VAULTS: &[AsyncVaultSetup] = &[
    async_vault(AsyncVaultKind::Open, "Devnet Managed USDC", "mUSDC"),
    async_vault(AsyncVaultKind::Capped { room: 1_000 }, "Devnet Capped USDC", "cmUSDC"),
    async_vault(AsyncVaultKind::Stuck { requested: 2_500 }, "Devnet Forgotten USDC", "fmUSDC"),
    async_vault(AsyncVaultKind::Paused, "Devnet Paused USDC", "pmUSDC"),
];

/// Contents of one chain of the devnet.
#[derive(Debug, Clone, Copy)]
pub struct ChainSetup {
    /// Name of the chain.
    pub name: &'static str,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Block interval in milliseconds, if blocks are mined by interval.
    pub block_millis: u64,
    /// Minimum base fee, in wei per gas. Without a minimum, the fee of a quiet chain falls to 7 wei within minutes, and
    /// gas would seem to be free in rehearsals.
    pub base_fee: u64,
    /// Tokens of the chain, wrapped ether first.
    pub tokens: &'static [SandboxToken],
    /// Pools of the chain.
    pub pools: &'static [PoolSetup],
    /// Uniswap V4 pools of the chain.
    pub v4_pools: &'static [V4PoolSetup],
    /// Tokens of the demo wallet, with raw amounts.
    pub demo_tokens: &'static [(SandboxToken, U256)],
    /// Ether of the demo wallet, in wei.
    pub demo_ether: U256,
}

const fn pool(a: SandboxToken, b: SandboxToken, venue: Venue, dollars: u64) -> PoolSetup {
    PoolSetup { a, b, venue, dollars }
}

const fn v4_pool(a: PoolCurrency, b: SandboxToken, fee: u32, hook: Option<PoolHook>, dollars: u64) -> V4PoolSetup {
    V4PoolSetup { a, b: PoolCurrency::Token(b), fee, hook, dollars }
}

use PoolCurrency::{Native, Token};
use SandboxToken::{
    Dai, FeeOnTransfer, HostileSymbol, Link, Lookalike, NoReturn, Reverting, Uni, Usdc, Usdt, Wbtc, Weth,
};
use Venue::{V2, V3};

/// The devnet's `ethereum` chain.
pub const ETHEREUM: ChainSetup = ChainSetup {
    name: "ethereum",
    chain_id: 31337,
    block_millis: 2_000,
    base_fee: 1_000_000_000,
    tokens: &[Weth, Usdc, Usdt, Dai, Uni, Link, Wbtc, FeeOnTransfer, NoReturn, HostileSymbol, Lookalike, Reverting],
    pools: &[
        pool(Weth, Usdc, V3(100), 2_000_000),
        pool(Weth, Usdc, V3(500), 9_000_000),
        pool(Weth, Usdc, V3(3_000), 5_000_000),
        pool(Weth, Usdc, V3(10_000), 1_000_000),
        pool(Weth, Usdc, V2, 3_000_000),
        pool(Weth, Usdt, V3(500), 3_000_000),
        pool(Weth, Usdt, V2, 1_000_000),
        pool(Weth, Dai, V3(3_000), 2_000_000),
        pool(Weth, Dai, V2, 1_000_000),
        pool(Usdc, Usdt, V3(100), 4_000_000),
        pool(Usdc, Dai, V3(100), 3_000_000),
        pool(Wbtc, Weth, V3(500), 3_000_000),
        pool(Wbtc, Weth, V3(3_000), 2_000_000),
        pool(Wbtc, Usdc, V3(3_000), 2_000_000),
        pool(Uni, Weth, V3(3_000), 2_000_000),
        pool(Uni, Weth, V2, 1_000_000),
        pool(Uni, Usdc, V3(3_000), 2_000_000),
        pool(Link, Weth, V3(3_000), 2_000_000),
        pool(Link, Weth, V2, 1_000_000),
        pool(Link, Usdc, V3(10_000), 1_000_000),
        pool(FeeOnTransfer, Weth, V2, 100_000),
        pool(NoReturn, Weth, V2, 100_000),
        pool(HostileSymbol, Weth, V2, 100_000),
        pool(Lookalike, Weth, V2, 100_000),
        pool(Reverting, Weth, V2, 100_000),
    ],
    v4_pools: &[
        v4_pool(Native, Usdc, 3_000, None, 1_500_000),
        v4_pool(Token(Weth), Usdc, 3_000, None, 500_000),
        v4_pool(Token(Usdc), Usdt, 100, None, 1_000_000),
        v4_pool(Native, Uni, 3_000, None, 500_000),
        v4_pool(Native, Usdc, 3_000, Some(PoolHook::SwapCount), 200_000),
        v4_pool(Native, Usdc, 100, Some(PoolHook::SwapTax), 200_000),
    ],
    demo_tokens: &[(Weth, uint!(4_500_000_000_000_000_000_U256)), (Usdc, uint!(5_000_000_000_U256))],
    demo_ether: uint!(1_400_000_000_000_000_000_U256),
};

/// The devnet's `base` chain.
pub const BASE: ChainSetup = ChainSetup {
    name: "base",
    chain_id: 31338,
    block_millis: 1_000,
    base_fee: 10_000_000,
    tokens: &[Weth, Usdc, Usdt, Dai, Uni, Link],
    pools: &[
        pool(Weth, Usdc, V3(100), 1_000_000),
        pool(Weth, Usdc, V3(500), 5_000_000),
        pool(Weth, Usdc, V3(3_000), 2_000_000),
        pool(Weth, Usdc, V2, 1_000_000),
        pool(Weth, Dai, V3(3_000), 2_000_000),
        pool(Usdc, Usdt, V3(100), 2_000_000),
        pool(Usdc, Dai, V3(100), 2_000_000),
        pool(Uni, Weth, V3(3_000), 2_000_000),
        pool(Link, Weth, V3(3_000), 2_000_000),
        pool(Link, Weth, V2, 1_000_000),
    ],
    v4_pools: &[v4_pool(Native, Usdc, 3_000, None, 800_000), v4_pool(Token(Usdc), Usdt, 100, None, 500_000)],
    demo_tokens: &[(Usdc, uint!(500_000_000_U256))],
    demo_ether: uint!(200_000_000_000_000_000_U256),
};

/// Both chains, ethereum first.
pub const CHAINS: [&ChainSetup; 2] = [&ETHEREUM, &BASE];

/// Liquidity ranges by fee: half-widths of the positions around the price in ticks (a tick is a hundredth of a
/// percent), narrowest first, and the width of one step above and below.
pub const fn ranges_of(fee: u32) -> (&'static [i32], i32) {
    match fee {
        100 => (&[20, 60, 250], 20),
        500 => (&[150, 500, 2_000], 100),
        3_000 => (&[600, 1_800, 6_000], 300),
        _ => (&[2_000, 6_000], 1_000),
    }
}

/// Number of one-sided positions on each side of the price.
pub const STAIRS: i32 = 10;

/// Number of observations that a V3 pool keeps: more than an hour of swaps.
pub const OBSERVATIONS: u16 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_names_tokens_of_its_chain_and_none_is_planned_twice() {
        for chain in CHAINS {
            let mut seen = std::collections::HashSet::new();
            for pool in chain.pools {
                assert!(chain.tokens.contains(&pool.a) && chain.tokens.contains(&pool.b));
                assert!(seen.insert((pool.a.min(pool.b), pool.a.max(pool.b), pool.venue)), "{pool:?}");
            }
            assert_eq!(chain.tokens.first(), Some(&SandboxToken::Weth));
            let mut seen = std::collections::HashSet::new();
            for pool in chain.v4_pools {
                assert!(pool.a != pool.b && pool.b != Native, "{pool:?}");
                assert!([pool.a, pool.b].iter().all(|side| chain.tokens.contains(&side.priced_as())));
                assert!(seen.insert((pool.a.min(pool.b), pool.a.max(pool.b), pool.fee, pool.hook)), "{pool:?}");
            }
        }
    }

    #[test]
    fn the_weth_usdc_pools_hold_twenty_million_dollars() {
        let depth = |chain: &ChainSetup| -> u64 {
            chain.pools.iter().filter(|pool| (pool.a, pool.b) == (Weth, Usdc)).map(|pool| pool.dollars).sum()
        };
        assert_eq!(depth(&ETHEREUM), 20_000_000);
    }
}
