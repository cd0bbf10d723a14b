//! Entry points of Uniswap's Universal Router. The inputs of its commands are plain ABI tuples, which `uniswap::router`
//! encodes and decodes.

alloy::sol! {
    /// Universal Router, <https://github.com/Uniswap/universal-router>, 2.0 and later.
    #[derive(Debug, PartialEq, Eq)]
    interface UniversalRouter {
        function execute(bytes commands, bytes[] inputs) external payable;
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }
}
