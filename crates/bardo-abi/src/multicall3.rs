//! Multicall3, <https://github.com/mds1/multicall3>.

alloy::sol! {
    /// Several calls in one, and a few properties of the chain.
    #[derive(Debug, PartialEq, Eq)]
    interface Multicall3 {
        struct Call3 {
            address target;
            bool allowFailure;
            bytes callData;
        }
        struct Result {
            bool success;
            bytes returnData;
        }

        function aggregate3(Call3[] calls) external payable returns (Result[] returnData);
        function getEthBalance(address owner) external view returns (uint256 balance);
        function getBlockNumber() external view returns (uint256 blockNumber);
        function getChainId() external view returns (uint256 chainid);
    }
}
