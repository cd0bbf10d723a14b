//! Uniswap V4: pool manager, position manager, state view and quoter; and the contract with which the devnet's market
//! trades.

// The number of arguments is given by the contracts.
#![allow(clippy::too_many_arguments)]

alloy::sol! {
    /// Pool, identified by the keccak-256 hash of its ABI encoding. The zero address as `currency0` is the native
    /// token. Fees are in hundredths of a basis point; 0x800000 stands for a fee that the hook sets.
    #[derive(Debug, Default, Copy, PartialEq, Eq, Hash)]
    struct PoolKey {
        address currency0;
        address currency1;
        uint24 fee;
        int24 tickSpacing;
        address hooks;
    }

    /// Next pool of a path, with the currency on its other side.
    #[derive(Debug, PartialEq, Eq)]
    struct PathKey {
        address intermediateCurrency;
        uint256 fee;
        int24 tickSpacing;
        address hooks;
        bytes hookData;
    }

    /// Swap along a path of pools for the router's actions SWAP_EXACT_IN and SWAP_EXACT_OUT: from the fixed amount's
    /// currency over the other sides of the pools, with the fixed amount and the bound of the other one.
    #[derive(Debug, PartialEq, Eq)]
    struct ExactPathParams {
        address currency;
        PathKey[] path;
        uint128 amount;
        uint128 bound;
    }

    /// The same for Universal Routers from 2.1.0 on, with a bound for each pool or none: `maxHopSlippage` in 2.1.0, and
    /// `minHopPriceX36` from 2.1.1 on.
    #[derive(Debug, PartialEq, Eq)]
    struct ExactPathParamsV21 {
        address currency;
        PathKey[] path;
        uint256[] hopBounds;
        uint128 amount;
        uint128 bound;
    }

    /// Contract that holds all pools and their tokens.
    #[derive(Debug, PartialEq, Eq)]
    interface PoolManager {
        event Initialize(
            bytes32 indexed id,
            address indexed currency0,
            address indexed currency1,
            uint24 fee,
            int24 tickSpacing,
            address hooks,
            uint160 sqrtPriceX96,
            int24 tick
        );
        event ModifyLiquidity(
            bytes32 indexed id,
            address indexed sender,
            int24 tickLower,
            int24 tickUpper,
            int256 liquidityDelta,
            bytes32 salt
        );
        event Swap(
            bytes32 indexed id,
            address indexed sender,
            int128 amount0,
            int128 amount1,
            uint160 sqrtPriceX96,
            uint128 liquidity,
            int24 tick,
            uint24 fee
        );

        function owner() external view returns (address);
        function initialize(PoolKey key, uint160 sqrtPriceX96) external returns (int24 tick);
        function setProtocolFeeController(address controller) external;
        function setProtocolFee(PoolKey key, uint24 newProtocolFee) external;
    }

    /// Positions as ERC-721 tokens. `info` holds, from its lowest bit, whether the position has a subscriber (8 bits), the
    /// lower and the upper tick (24 bits each, signed), and the first 200 bits of the pool's id, by which `poolKeys` finds
    /// the keys of pools in which a position was opened.
    #[derive(Debug, PartialEq, Eq)]
    interface PositionManager {
        event Transfer(address indexed from, address indexed to, uint256 indexed id);

        function modifyLiquidities(bytes unlockData, uint256 deadline) external payable;
        function nextTokenId() external view returns (uint256);
        function poolManager() external view returns (address);
        function balanceOf(address owner) external view returns (uint256);
        function ownerOf(uint256 id) external view returns (address owner);
        function getPoolAndPositionInfo(uint256 tokenId) external view returns (PoolKey poolKey, uint256 info);
        function getPositionLiquidity(uint256 tokenId) external view returns (uint128 liquidity);
        function poolKeys(bytes25 poolId) external view returns (
            address currency0, address currency1, uint24 fee, int24 tickSpacing, address hooks
        );
    }

    /// Reads the state of pools. Prices are square roots as Q64.96; the protocol fee holds that of selling currency 1
    /// in its upper and that of selling currency 0 in its lower 12 bits.
    #[derive(Debug, PartialEq, Eq)]
    interface StateView {
        function poolManager() external view returns (address);
        function getSlot0(bytes32 poolId) external view returns (
            uint160 sqrtPriceX96, int24 tick, uint24 protocolFee, uint24 lpFee
        );
        function getLiquidity(bytes32 poolId) external view returns (uint128 liquidity);
        function getTickBitmap(bytes32 poolId, int16 tick) external view returns (uint256 tickBitmap);
        function getTickLiquidity(bytes32 poolId, int24 tick) external view returns (
            uint128 liquidityGross, int128 liquidityNet
        );
        function getPositionInfo(
            bytes32 poolId, address owner, int24 tickLower, int24 tickUpper, bytes32 salt
        ) external view returns (
            uint128 liquidity, uint256 feeGrowthInside0LastX128, uint256 feeGrowthInside1LastX128
        );
        function getFeeGrowthInside(bytes32 poolId, int24 tickLower, int24 tickUpper) external view returns (
            uint256 feeGrowthInside0X128, uint256 feeGrowthInside1X128
        );
    }

    /// Exact quotes by simulating the swap.
    #[derive(Debug, PartialEq, Eq)]
    interface V4Quoter {
        struct QuoteExactSingleParams {
            PoolKey poolKey;
            bool zeroForOne;
            uint128 exactAmount;
            bytes hookData;
        }

        function poolManager() external view returns (address);
        function quoteExactInputSingle(QuoteExactSingleParams params) external returns (
            uint256 amountOut, uint256 gasEstimate
        );
        function quoteExactOutputSingle(QuoteExactSingleParams params) external returns (
            uint256 amountIn, uint256 gasEstimate
        );
    }

    /// Parameters of a change of liquidity; a negative delta removes.
    #[derive(Debug, Copy, PartialEq, Eq)]
    struct ModifyLiquidityParams {
        int24 tickLower;
        int24 tickUpper;
        int256 liquidityDelta;
        bytes32 salt;
    }

    /// Parameters of a swap; a negative amount is an exact input.
    #[derive(Debug, Copy, PartialEq, Eq)]
    struct SwapParams {
        bool zeroForOne;
        int256 amountSpecified;
        uint160 sqrtPriceLimitX96;
    }

    /// Bardo's trial of a pool with its hook, for simulations. Deltas are the caller's: the amount of currency 0 in the upper
    /// 128 bits, and that of currency 1 in the lower ones, negative for what the caller pays.
    #[derive(Debug, PartialEq, Eq)]
    interface HookProbe {
        function trySwap(address manager, PoolKey key, SwapParams params) external returns (
            bool done, int256 delta, bytes reason
        );
        function tryLiquidity(address manager, PoolKey key, ModifyLiquidityParams params, bool exit) external returns (
            bool done, int256 added, int256 removed, bytes reason
        );
    }

    /// Bardo's contract for swaps up to a price, with which the devnet's market trades in V4 pools.
    #[derive(Debug, PartialEq, Eq)]
    interface PoolTrader {
        struct Trade {
            PoolKey key;
            bool zeroForOne;
            uint128 amountIn;
            uint160 sqrtPriceLimitX96;
            uint128 leastOut;
        }

        function trade(Trade[] trades) external payable;
    }
}
