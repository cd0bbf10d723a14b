//! Uniswap V3: factory, pool, position manager, quoter, tick lens, SwapRouter02.

alloy::sol! {
    /// Factory with one pool for any two tokens and fee. Fees are in hundredths of a basis point.
    #[derive(Debug, PartialEq, Eq)]
    interface UniswapV3Factory {
        event PoolCreated(
            address indexed token0, address indexed token1, uint24 indexed fee, int24 tickSpacing, address pool
        );

        function owner() external view returns (address);
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
        function feeAmountTickSpacing(uint24 fee) external view returns (int24);
        function createPool(address tokenA, address tokenB, uint24 fee) external returns (address pool);
        function enableFeeAmount(uint24 fee, int24 tickSpacing) external;
        function setOwner(address owner) external;
    }

    /// Pool with concentrated liquidity.
    #[derive(Debug, PartialEq, Eq)]
    interface UniswapV3Pool {
        event Initialize(uint160 sqrtPriceX96, int24 tick);
        event Mint(
            address sender,
            address indexed owner,
            int24 indexed tickLower,
            int24 indexed tickUpper,
            uint128 amount,
            uint256 amount0,
            uint256 amount1
        );
        event Burn(
            address indexed owner,
            int24 indexed tickLower,
            int24 indexed tickUpper,
            uint128 amount,
            uint256 amount0,
            uint256 amount1
        );
        event Swap(
            address indexed sender,
            address indexed recipient,
            int256 amount0,
            int256 amount1,
            uint160 sqrtPriceX96,
            uint128 liquidity,
            int24 tick
        );

        function token0() external view returns (address);
        function token1() external view returns (address);
        function fee() external view returns (uint24);
        function tickSpacing() external view returns (int24);
        function liquidity() external view returns (uint128);
        function slot0() external view returns (
            uint160 sqrtPriceX96,
            int24 tick,
            uint16 observationIndex,
            uint16 observationCardinality,
            uint16 observationCardinalityNext,
            uint8 feeProtocol,
            bool unlocked
        );
        function ticks(int24 tick) external view returns (
            uint128 liquidityGross,
            int128 liquidityNet,
            uint256 feeGrowthOutside0X128,
            uint256 feeGrowthOutside1X128,
            int56 tickCumulativeOutside,
            uint160 secondsPerLiquidityOutsideX128,
            uint32 secondsOutside,
            bool initialized
        );
        function tickBitmap(int16 wordPosition) external view returns (uint256);
        function feeGrowthGlobal0X128() external view returns (uint256);
        function feeGrowthGlobal1X128() external view returns (uint256);
        function positions(bytes32 key) external view returns (
            uint128 liquidity,
            uint256 feeGrowthInside0LastX128,
            uint256 feeGrowthInside1LastX128,
            uint128 tokensOwed0,
            uint128 tokensOwed1
        );
        function observations(uint256 index) external view returns (
            uint32 blockTimestamp,
            int56 tickCumulative,
            uint160 secondsPerLiquidityCumulativeX128,
            bool initialized
        );
        function observe(uint32[] secondsAgos) external view
            returns (int56[] tickCumulatives, uint160[] secondsPerLiquidityCumulativeX128s);
        function increaseObservationCardinalityNext(uint16 observationCardinalityNext) external;
    }

    /// Position manager, with positions as ERC-721 tokens.
    #[derive(Debug, PartialEq, Eq)]
    interface NonfungiblePositionManager {
        struct MintParams {
            address token0;
            address token1;
            uint24 fee;
            int24 tickLower;
            int24 tickUpper;
            uint256 amount0Desired;
            uint256 amount1Desired;
            uint256 amount0Min;
            uint256 amount1Min;
            address recipient;
            uint256 deadline;
        }
        struct IncreaseLiquidityParams {
            uint256 tokenId;
            uint256 amount0Desired;
            uint256 amount1Desired;
            uint256 amount0Min;
            uint256 amount1Min;
            uint256 deadline;
        }
        struct DecreaseLiquidityParams {
            uint256 tokenId;
            uint128 liquidity;
            uint256 amount0Min;
            uint256 amount1Min;
            uint256 deadline;
        }
        struct CollectParams {
            uint256 tokenId;
            address recipient;
            uint128 amount0Max;
            uint128 amount1Max;
        }

        event IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
        event DecreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
        event Collect(uint256 indexed tokenId, address recipient, uint256 amount0, uint256 amount1);
        event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

        function createAndInitializePoolIfNecessary(address token0, address token1, uint24 fee, uint160 sqrtPriceX96)
            external payable returns (address pool);
        function mint(MintParams params) external payable
            returns (uint256 tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
        function increaseLiquidity(IncreaseLiquidityParams params) external payable
            returns (uint128 liquidity, uint256 amount0, uint256 amount1);
        function decreaseLiquidity(DecreaseLiquidityParams params) external payable
            returns (uint256 amount0, uint256 amount1);
        function collect(CollectParams params) external payable returns (uint256 amount0, uint256 amount1);
        function burn(uint256 tokenId) external payable;
        function multicall(bytes[] data) external payable returns (bytes[] results);
        function balanceOf(address owner) external view returns (uint256);
        function ownerOf(uint256 tokenId) external view returns (address);
        function tokenOfOwnerByIndex(address owner, uint256 index) external view returns (uint256);
        function positions(uint256 tokenId) external view returns (
            uint96 nonce,
            address operator,
            address token0,
            address token1,
            uint24 fee,
            int24 tickLower,
            int24 tickUpper,
            uint128 liquidity,
            uint256 feeGrowthInside0LastX128,
            uint256 feeGrowthInside1LastX128,
            uint128 tokensOwed0,
            uint128 tokensOwed1
        );
        function tokenURI(uint256 tokenId) external view returns (string);
    }

    /// Quoter that runs a swap and reverts it.
    #[derive(Debug, PartialEq, Eq)]
    interface QuoterV2 {
        struct QuoteExactInputSingleParams {
            address tokenIn;
            address tokenOut;
            uint256 amountIn;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }
        struct QuoteExactOutputSingleParams {
            address tokenIn;
            address tokenOut;
            uint256 amount;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }

        function quoteExactInputSingle(QuoteExactInputSingleParams params) external returns (
            uint256 amountOut, uint160 sqrtPriceX96After, uint32 initializedTicksCrossed, uint256 gasEstimate
        );
        function quoteExactOutputSingle(QuoteExactOutputSingleParams params) external returns (
            uint256 amountIn, uint160 sqrtPriceX96After, uint32 initializedTicksCrossed, uint256 gasEstimate
        );
        function quoteExactInput(bytes path, uint256 amountIn) external returns (
            uint256 amountOut,
            uint160[] sqrtPriceX96AfterList,
            uint32[] initializedTicksCrossedList,
            uint256 gasEstimate
        );
        function quoteExactOutput(bytes path, uint256 amountOut) external returns (
            uint256 amountIn,
            uint160[] sqrtPriceX96AfterList,
            uint32[] initializedTicksCrossedList,
            uint256 gasEstimate
        );
    }

    /// Lens that reads all initialised ticks in one word of the bitmap.
    #[derive(Debug, PartialEq, Eq)]
    interface TickLens {
        struct PopulatedTick {
            int24 tick;
            int128 liquidityNet;
            uint128 liquidityGross;
        }

        function getPopulatedTicksInWord(address pool, int16 tickBitmapIndex) external view
            returns (PopulatedTick[] populatedTicks);
    }

    /// Router for V2 and V3. The structs have no deadline; `multicall` takes it.
    #[derive(Debug, PartialEq, Eq)]
    interface SwapRouter02 {
        struct ExactInputSingleParams {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
            uint160 sqrtPriceLimitX96;
        }
        struct ExactOutputSingleParams {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountOut;
            uint256 amountInMaximum;
            uint160 sqrtPriceLimitX96;
        }
        struct ExactInputParams {
            bytes path;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
        }
        struct ExactOutputParams {
            bytes path;
            address recipient;
            uint256 amountOut;
            uint256 amountInMaximum;
        }

        function exactInputSingle(ExactInputSingleParams params) external payable returns (uint256 amountOut);
        function exactOutputSingle(ExactOutputSingleParams params) external payable returns (uint256 amountIn);
        function exactInput(ExactInputParams params) external payable returns (uint256 amountOut);
        function exactOutput(ExactOutputParams params) external payable returns (uint256 amountIn);
        function swapExactTokensForTokens(uint256 amountIn, uint256 amountOutMin, address[] path, address to)
            external payable returns (uint256 amountOut);
        function swapTokensForExactTokens(uint256 amountOut, uint256 amountInMax, address[] path, address to)
            external payable returns (uint256 amountIn);
        function multicall(uint256 deadline, bytes[] data) external payable returns (bytes[] results);
        function unwrapWETH9(uint256 amountMinimum, address recipient) external payable;
        function refundETH() external payable;
    }
}
