//! Uniswap's Universal Router: its entry points. The inputs of its commands are plain ABI tuples, which
//! `uniswap::router` writes and reads.

alloy::sol! {
    /// The Universal Router, <https://github.com/Uniswap/universal-router>, 2.0 and later.
    #[derive(Debug, PartialEq, Eq)]
    interface UniversalRouter {
        function execute(bytes commands, bytes[] inputs) external payable;
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }
}
