//! What is deployed on the devnet, as data: tokens, feeds, pools and their depth, and who owns what.
//!
//! Not here: how it gets there (see `genesis`).

use alloy::primitives::{U256, uint};

use super::contracts::Contract;
use super::target::Asset;

/// A token of the devnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Token {
    /// Wrapped ether.
    Weth,
    /// USDC, 6 decimals.
    Usdc,
    /// USDT, 6 decimals.
    Usdt,
    /// DAI, 18 decimals.
    Dai,
    /// UNI, 18 decimals.
    Uni,
    /// LINK, 18 decimals.
    Link,
    /// WBTC, 8 decimals.
    Wbtc,
    /// Bad: delivers one percent less than was sent.
    FeeOnTransfer,
    /// Bad: returns no bool.
    NoReturn,
    /// Bad: its symbol holds escape codes and bidi marks.
    HostileSymbol,
    /// Bad: calls itself USDC with a Cyrillic letter.
    Lookalike,
    /// Bad: no transfer succeeds, so that it can be bought from no pool.
    Reverting,
}

/// What a token is made of.
#[derive(Debug, Clone, Copy)]
pub struct TokenPlan {
    /// The name as the contract gives it.
    pub name: &'static str,
    /// The symbol as the contract gives it. Of a bad token it may be hostile: never print it.
    pub symbol: &'static str,
    /// Decimals.
    pub decimals: u8,
    /// What one is worth.
    pub asset: Asset,
    /// The contract.
    pub contract: Contract,
    /// What the devnet's description calls it: good tokens by their symbol; bad ones are listed among the
    /// contracts, not the tokens, so that no address book takes them for known.
    pub key: &'static str,
}

impl Token {
    /// What it is made of.
    pub const fn plan(self) -> TokenPlan {
        use Contract::{FeeOnTransferToken, HostileSymbolToken, MockERC20, NoReturnToken, RevertingToken, Weth9};
        const fn row(
            key: &'static str,
            symbol: &'static str,
            name: &'static str,
            decimals: u8,
            asset: Asset,
            contract: Contract,
        ) -> TokenPlan {
            TokenPlan { name, symbol, decimals, asset, contract, key }
        }
        match self {
            Self::Weth => row("WETH", "WETH", "Wrapped Ether", 18, Asset::Eth, Weth9),
            Self::Usdc => row("USDC", "USDC", "USD Coin", 6, Asset::Usdc, MockERC20),
            Self::Usdt => row("USDT", "USDT", "Tether USD", 6, Asset::Usdt, MockERC20),
            Self::Dai => row("DAI", "DAI", "Dai Stablecoin", 18, Asset::Dai, MockERC20),
            Self::Uni => row("UNI", "UNI", "Uniswap", 18, Asset::Uni, MockERC20),
            Self::Link => row("LINK", "LINK", "ChainLink Token", 18, Asset::Link, MockERC20),
            Self::Wbtc => row("WBTC", "WBTC", "Wrapped BTC", 8, Asset::Btc, MockERC20),
            Self::FeeOnTransfer => {
                row("badFeeOnTransferToken", "TOLL", "Toll Token", 18, Asset::Curio, FeeOnTransferToken)
            }
            Self::NoReturn => row("badNoReturnToken", "MUTE", "Mute Token", 6, Asset::Curio, NoReturnToken),
            Self::HostileSymbol => row(
                "badHostileSymbolToken",
                "\u{1b}[2J\u{1b}]0;owned\u{7}AD\u{202e}CDSU\u{200b}",
                // As much of a note as a name has room for.
                "\u{1b}Approve unlimited: 0x00000000000000000000000000000000DeaDBeef\r\n",
                18,
                Asset::Curio,
                HostileSymbolToken,
            ),
            // The last letter is U+0421, Cyrillic Es.
            Self::Lookalike => row("badLookalikeToken", "USD\u{421}", "USD Coin", 6, Asset::Curio, MockERC20),
            Self::Reverting => row("badRevertingToken", "HOTEL", "Hotel Token", 18, Asset::Curio, RevertingToken),
        }
    }

    /// Whether the token behaves as its description promises.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::FeeOnTransfer | Self::NoReturn | Self::HostileSymbol | Self::Lookalike | Self::Reverting)
    }
}

/// A Uniswap protocol version and, for V3, the fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Venue {
    /// A V2 pair, 0.3 %.
    V2,
    /// A V3 pool with this fee in hundredths of a basis point (parts per million).
    V3(u32),
}

impl Venue {
    /// The fee in parts per million.
    pub const fn fee(self) -> u32 {
        match self {
            Self::V2 => 3_000,
            Self::V3(fee) => fee,
        }
    }
}

/// A pool to be made and filled.
#[derive(Debug, Clone, Copy)]
pub struct PoolPlan {
    /// One token.
    pub a: Token,
    /// The other.
    pub b: Token,
    /// Where.
    pub venue: Venue,
    /// What all it holds is worth, in dollars, half of it on either side.
    pub dollars: u64,
}

/// What one chain of the devnet is made of.
#[derive(Debug, Clone, Copy)]
pub struct ChainPlan {
    /// The chain's name.
    pub name: &'static str,
    /// Its id.
    pub chain_id: u64,
    /// Time between blocks where they are made by interval, in milliseconds.
    pub block_millis: u64,
    /// The least wei per gas a block burns. Without a floor the fee of a chain this quiet ends at 7 wei within
    /// minutes, and gas would look free to whoever rehearses here.
    pub base_fee: u64,
    /// Its tokens, wrapped ether first.
    pub tokens: &'static [Token],
    /// Its pools.
    pub pools: &'static [PoolPlan],
    /// What the demo wallet holds: token and raw amount.
    pub demo_tokens: &'static [(Token, U256)],
    /// The demo wallet's ether, in wei.
    pub demo_ether: U256,
}

const fn pool(a: Token, b: Token, venue: Venue, dollars: u64) -> PoolPlan {
    PoolPlan { a, b, venue, dollars }
}

use Token::{Dai, FeeOnTransfer, HostileSymbol, Link, Lookalike, NoReturn, Reverting, Uni, Usdc, Usdt, Wbtc, Weth};
use Venue::{V2, V3};

/// The devnet's `ethereum`.
pub const ETHEREUM: ChainPlan = ChainPlan {
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
    demo_tokens: &[(Weth, uint!(4_500_000_000_000_000_000_U256)), (Usdc, uint!(5_000_000_000_U256))],
    demo_ether: uint!(1_400_000_000_000_000_000_U256),
};

/// The devnet's `base`.
pub const BASE: ChainPlan = ChainPlan {
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
    demo_tokens: &[(Usdc, uint!(500_000_000_U256))],
    demo_ether: uint!(200_000_000_000_000_000_U256),
};

/// Both chains.
pub const CHAINS: [&ChainPlan; 2] = [&ETHEREUM, &BASE];

/// Half-widths in ticks (a tick is a hundredth of a percent) of the positions around the price, narrowest first,
/// and the width of one step of the stairs above and below, by fee.
pub const fn ranges_of(fee: u32) -> (&'static [i32], i32) {
    match fee {
        100 => (&[20, 60, 250], 20),
        500 => (&[150, 500, 2_000], 100),
        3_000 => (&[600, 1_800, 6_000], 300),
        _ => (&[2_000, 6_000], 1_000),
    }
}

/// How many one-sided positions stand on each side of the price.
pub const STAIRS: i32 = 10;

/// How many observations a V3 pool keeps: more than an hour of swaps.
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
            assert_eq!(chain.tokens.first(), Some(&Token::Weth));
        }
    }

    #[test]
    fn ether_against_usdc_is_twenty_million_deep() {
        let depth = |chain: &ChainPlan| -> u64 {
            chain.pools.iter().filter(|pool| (pool.a, pool.b) == (Weth, Usdc)).map(|pool| pool.dollars).sum()
        };
        assert_eq!(depth(&ETHEREUM), 20_000_000);
    }
}
