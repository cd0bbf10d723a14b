//! Uniswap V2: factory, pair and router, <https://github.com/Uniswap/v2-core>.

alloy::sol! {
    /// Factory with one pair for any two tokens.
    #[derive(Debug, PartialEq, Eq)]
    interface UniswapV2Factory {
        event PairCreated(address indexed token0, address indexed token1, address pair, uint256 count);

        function getPair(address tokenA, address tokenB) external view returns (address pair);
        function allPairs(uint256 index) external view returns (address pair);
        function allPairsLength() external view returns (uint256);
        function createPair(address tokenA, address tokenB) external returns (address pair);
    }

    /// Pair with a constant product and a fee of 0.3 %.
    #[derive(Debug, PartialEq, Eq)]
    interface UniswapV2Pair {
        event Mint(address indexed sender, uint256 amount0, uint256 amount1);
        event Burn(address indexed sender, uint256 amount0, uint256 amount1, address indexed to);
        event Swap(
            address indexed sender,
            uint256 amount0In,
            uint256 amount1In,
            uint256 amount0Out,
            uint256 amount1Out,
            address indexed to
        );
        event Sync(uint112 reserve0, uint112 reserve1);

        function token0() external view returns (address);
        function token1() external view returns (address);
        function getReserves() external view returns (uint112 reserve0, uint112 reserve1, uint32 blockTimestampLast);
        function price0CumulativeLast() external view returns (uint256);
        function price1CumulativeLast() external view returns (uint256);
        function mint(address to) external returns (uint256 liquidity);
        function totalSupply() external view returns (uint256);
    }

    /// Router of V2, second version.
    #[derive(Debug, PartialEq, Eq)]
    interface UniswapV2Router02 {
        function factory() external view returns (address);
        function WETH() external view returns (address);
        function getAmountsOut(uint256 amountIn, address[] path) external view returns (uint256[] amounts);
        function getAmountsIn(uint256 amountOut, address[] path) external view returns (uint256[] amounts);
        function addLiquidity(
            address tokenA,
            address tokenB,
            uint256 amountADesired,
            uint256 amountBDesired,
            uint256 amountAMin,
            uint256 amountBMin,
            address to,
            uint256 deadline
        ) external returns (uint256 amountA, uint256 amountB, uint256 liquidity);
        function swapExactTokensForTokens(
            uint256 amountIn,
            uint256 amountOutMin,
            address[] path,
            address to,
            uint256 deadline
        ) external returns (uint256[] amounts);
        function swapTokensForExactTokens(
            uint256 amountOut,
            uint256 amountInMax,
            address[] path,
            address to,
            uint256 deadline
        ) external returns (uint256[] amounts);
        function swapExactETHForTokens(uint256 amountOutMin, address[] path, address to, uint256 deadline)
            external payable returns (uint256[] amounts);
        function swapExactTokensForETH(
            uint256 amountIn,
            uint256 amountOutMin,
            address[] path,
            address to,
            uint256 deadline
        ) external returns (uint256[] amounts);
        function swapExactTokensForTokensSupportingFeeOnTransferTokens(
            uint256 amountIn,
            uint256 amountOutMin,
            address[] path,
            address to,
            uint256 deadline
        ) external;
    }
}
